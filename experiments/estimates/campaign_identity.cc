// A/A: do runs that lose nothing have the bits of their reference?
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "experiments/estimates/campaign_analysis.h"
#include "experiments/estimates/comparability.h"

namespace longhaul {
namespace {

// By its text in the record: also "identity at 1", of one boundary.
bool Lossless(const std::string& codec) {
  return codec == "none" || codec == "identity" ||
         (codec.starts_with(fmt::format("identity{}", kAtBoundaries)) &&
          codec.find(';') == std::string::npos);
}

bool SameBits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

// What two runs have in common, counted into `check`; the answer is the first difference or "".
struct TwoRuns {
  const Record& record;
  const RunRow &run, &reference;
  IdentityCheck& check;

  // Losses stand in the rows of the last stage, whose number may differ; parameters can only be
  // compared where the stages are the same.
  absl::StatusOr<std::string> Steps() const {
    const auto ours = record.Steps(run.id), theirs = record.Steps(reference.id);
    if (!ours.ok()) return ours.status();
    if (!theirs.ok()) return theirs.status();
    std::map<std::pair<int64_t, int64_t>, double> losses;
    std::map<std::tuple<int64_t, int64_t, int64_t>, std::optional<uint64_t>> hashes;
    for (const StepRow& row : *theirs) {
      if (row.loss_nat) losses[{row.step, row.group_index}] = *row.loss_nat;
      hashes[{row.step, row.group_index, row.stage}] = row.parameter_hash;
    }
    // A reference that branched off a longer run has rows from there on.
    const bool branched = reference.facts.contains(kRestoredStepFact) && !theirs->empty();
    const int64_t first = branched ? theirs->front().step : 1;
    size_t compared = 0;
    for (const StepRow& row : *ours) {
      if (row.step < first) continue;
      if (row.loss_nat) {
        const auto loss = losses.find({row.step, row.group_index});
        if (loss == losses.end()) return fmt::format("step {}: only one has it", row.step);
        ++compared;
        ++check.losses;
        if (!SameBits(*row.loss_nat, loss->second)) {
          return fmt::format("step {}: loss {} against {}", row.step, *row.loss_nat, loss->second);
        }
      }
      if (run.facts.contains(kProgramFact)) continue;  // it tells no hashes
      if (run.stages != reference.stages || !SameHashes(run, reference)) continue;
      const auto hash = hashes.find({row.step, row.group_index, row.stage});
      // Of runs that are not equally long one may have hashed where the other has not.
      if (!row.parameter_hash || (hash != hashes.end() && !hash->second)) continue;
      ++check.parameter_hashes;
      if (hash == hashes.end() || *hash->second != *row.parameter_hash) {
        return fmt::format("step {}: parameters", row.step);
      }
    }
    if (compared != losses.size()) return std::string("the number of steps");
    return std::string();
  }

  // The reference has no codec to switch, so both of ours are held against its one.
  std::string HeldOut(const Outcome& ours, const Outcome& theirs) const {
    for (const std::optional<double>& loss : {ours.loss_off, ours.loss_on}) {
      if (!loss || !theirs.loss_off) continue;
      ++check.held_out;
      if (!SameBits(*loss, *theirs.loss_off)) {
        return fmt::format("held-out loss {} against {}", *loss, *theirs.loss_off);
      }
    }
    return "";
  }
};

absl::StatusOr<IdentityCheck> Check(const Record& record, const ArmResult& arm,
                                    const ArmResult& reference) {
  IdentityCheck check{.arm = arm.arm,
                      .reference = reference.arm,
                      .same_spec = SpecChanges(reference.outcomes.front().run.spec_toml,
                                               arm.outcomes.front().run.spec_toml)
                                       .empty()};
  for (const Outcome& ours : arm.outcomes) {
    const auto theirs = std::find_if(
        reference.outcomes.begin(), reference.outcomes.end(),
        [&](const Outcome& o) { return o.run.seed == ours.run.seed && o.loss_off.has_value(); });
    if (!ours.loss_off || theirs == reference.outcomes.end()) continue;
    if (!OtherBuild(ours.run, theirs->run).empty()) {
      ++check.other_builds;
      continue;
    }
    ++check.seeds;
    const TwoRuns runs{record, ours.run, theirs->run, check};
    absl::StatusOr<std::string> difference = runs.Steps();
    if (!difference.ok()) return difference.status();
    if (difference->empty()) *difference = runs.HeldOut(ours, *theirs);
    check.identical_seeds += difference->empty();
    if (!difference->empty() && check.first_difference.empty()) {
      check.first_difference = fmt::format("seed {}, {}", ours.run.seed, *difference);
    }
  }
  return check;
}

}  // namespace

std::string IdentityCheck::Text() const {
  std::string text =
      fmt::format("{} {} against {}: ", same_spec ? "A/A" : "lossless", arm, reference);
  const std::string others =
      other_builds == 0 ? ""
                        : fmt::format("; {} seed{} not compared: of another build or CPU path",
                                      other_builds, other_builds == 1 ? "" : "s");
  if (seeds == 0) return text + "no pair of runs yet" + others;
  if (identical_seeds == seeds) {
    return text + fmt::format(
                      "bit-identical in {} of {} seeds ({} training losses, {} parameter "
                      "hashes, {} held-out losses){}",
                      seeds, seeds, losses, parameter_hashes, held_out, others);
  }
  return text + fmt::format("NOT bit-identical in {} of {} seeds, first at {}{}{}",
                            seeds - identical_seeds, seeds, first_difference,
                            same_spec ? ": runs of this record do not repeat" : "", others);
}

absl::Status CheckIdentities(const Record& record, CampaignAnalysis& a) {
  for (const ArmResult& arm : a.arms) {
    const bool repeats = arm.role == Role::kControl && arm.budget_fraction == 1;
    const bool lossless = arm.role == Role::kArm && arm.changes.empty() &&
                          Lossless(arm.forward_codec) && Lossless(arm.backward_codec);
    if (!repeats && !lossless) continue;
    const auto reference = std::find_if(a.arms.begin(), a.arms.end(), [&](const ArmResult& other) {
      return other.arm == arm.reference;
    });
    if (reference == a.arms.end()) continue;
    absl::StatusOr<IdentityCheck> check = Check(record, arm, *reference);
    if (!check.ok()) return check.status();
    a.identities.push_back(*std::move(check));
  }
  return absl::OkStatus();
}

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
