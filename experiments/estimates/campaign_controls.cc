// Does the instrument find what is known? Runs whose answer was fixed before they were trained.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "experiments/estimates/campaign_analysis.h"

namespace longhaul {
namespace {

// One true control in a hundred fails at this level, not one in twenty.
constexpr double kControlLevel = 0.99;
constexpr double kRounding = 1e-9;  // of a curve read backwards

LossBySeed FinalLosses(const ArmResult& arm) {
  LossBySeed losses;
  for (const Outcome& o : arm.outcomes) {
    if (o.loss_off) losses[o.run.seed] = *o.loss_off;
  }
  return losses;
}

// An uncompressed run of another budget: the curve must give back its budget. "": it does, or
// nothing can be said yet.
std::string Missed(const ReferenceCurve& curve, const ArmResult& arm) {
  const auto found = EstimateArm(curve, curve.d0_loss_by_seed, FinalLosses(arm), 0, kControlLevel);
  if (!found.ok() || !found->eta.interval) return "";
  const Interval& interval = *found->eta.interval;
  if (interval.low - kRounding <= arm.trained_fraction &&
      arm.trained_fraction <= interval.high + kRounding) {
    return "";
  }
  return fmt::format("{} has a true eta of {:.4f} and was recovered as {} (99 %)", arm.arm,
                     arm.trained_fraction, WithInterval(found->eta, 3));
}

// A program that does not take what it was given has runs that are one and the same.
std::string Deaf(const CampaignAnalysis& a) {
  const ArmResult* d0 = FindArm(a, kD0Reference);
  if (d0 == nullptr || d0->outcomes.empty()) return "";
  if (!d0->outcomes.front().run.facts.contains(kProgramFact)) return "";
  const LossBySeed losses = FinalLosses(*d0);
  const bool one_loss = std::all_of(losses.begin(), losses.end(), [&](const auto& loss) {
    return loss.second == losses.begin()->second;
  });
  if (losses.size() > 1 && one_loss) {
    return fmt::format(
        "all {} seeds of {} told the same loss, {}: the program does not go by $LONGHAUL_SEED",
        losses.size(), d0->arm, losses.begin()->second);
  }
  for (const ArmResult& arm : a.arms) {
    if (arm.role != Role::kReference || arm.budget_fraction == 1) continue;
    if (losses.empty() || FinalLosses(arm) != losses) continue;
    return fmt::format(
        "{} and {} told the same losses: the program does not go by $LONGHAUL_TOKENS", arm.arm,
        d0->arm);
  }
  return "";
}

}  // namespace

void CheckControls(CampaignAnalysis& a) {
  for (const ArmResult& arm : a.arms) {
    if (!a.curve || arm.role != Role::kControl || arm.lost > 0) continue;
    if (std::string why = Missed(*a.curve, arm); !why.empty()) {
      a.failed_controls.push_back(std::move(why));
    }
  }
  if (std::string why = Deaf(a); !why.empty()) a.failed_controls.push_back(std::move(why));
  for (const IdentityCheck& check : a.identities) {
    if (check.same_spec && check.identical_seeds < check.seeds) {
      a.failed_controls.push_back(check.Text());
    }
  }
  if (a.failed_controls.empty()) return;
  for (ArmResult& arm : a.arms) arm.controls_failed = true;
}

std::string ArmResult::ControlVerdict() const {
  if (!off || !off->eta.interval) return "no verdict: no interval";
  const Interval& interval = *off->eta.interval;
  const auto holds = [&](double eta) {
    return interval.low - kRounding <= eta && eta <= interval.high + kRounding;
  };
  if (!holds(trained_fraction)) return "MISSES the truth at 95 %; a control fails beyond 99 %";
  if (trained_fraction != 1 && holds(1)) {
    return "no verdict: the interval holds the truth and 1, which is no loss";
  }
  return "holds the truth";
}

}  // namespace longhaul
