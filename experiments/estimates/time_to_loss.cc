#include "experiments/estimates/time_to_loss.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace longhaul {
namespace {

struct Reached {
  double simulated_s, tokens;
};

absl::StatusOr<std::optional<Reached>> ReachedBy(const Record& record, int64_t run,
                                                 double target_nat) {
  const auto rows = record.Steps(run);
  if (!rows.ok()) return rows.status();
  const auto times = record.Simulated(run);
  if (!times.ok()) return times.status();
  struct Step {
    double loss = 0, tokens = 0, groups = 0, ended_s = 0;
  };
  std::map<int64_t, Step> steps;
  for (const StepRow& row : *rows) {
    if (!row.loss_nat) continue;
    Step& step = steps[row.step];
    step.loss += *row.loss_nat;
    step.tokens += static_cast<double>(row.tokens);
    ++step.groups;
  }
  for (const SimulatedRow& row : *times) {
    Step& step = steps[row.step];
    step.ended_s = std::max(step.ended_s, row.simulated_s);
  }
  double tokens = 0;
  std::vector<double> losses;
  for (const auto& [number, step] : steps) {
    if (step.groups == 0) return std::optional<Reached>();
    tokens += step.tokens;
    losses.push_back(step.loss / step.groups);
    if (losses.size() < kStepsOfALoss) continue;
    if (Mean(std::span(losses).last(kStepsOfALoss)) <= target_nat) {
      return std::optional(Reached{step.ended_s, tokens});
    }
  }
  return std::optional<Reached>();
}

}  // namespace

absl::Status CollectTimesToLoss(const Record& record, CampaignAnalysis& a) {
  const std::optional<double> target = PlannedTargetLoss(a.experiment.plan_text);
  if (!target) return absl::OkStatus();
  a.findings.target_loss_nat = *target;
  for (const ArmResult& arm : a.arms) {
    const bool shown =
        arm.role == Role::kArm || (arm.role == Role::kReference && arm.budget_fraction == 1);
    if (!shown) continue;
    TimeToLoss found{.arm = arm.arm};
    std::vector<double> seconds, tokens;
    for (const Outcome& outcome : arm.outcomes) {
      if (!outcome.run.facts.contains(kSimulatedClockFact)) continue;
      ++found.seeds;
      const auto reached = ReachedBy(record, outcome.run.id, *target);
      if (!reached.ok()) return reached.status();
      if (!*reached) continue;
      seconds.push_back((*reached)->simulated_s);
      tokens.push_back((*reached)->tokens);
    }
    found.reached = static_cast<int64_t>(seconds.size());
    if (found.seeds == 0) continue;
    // A mean over those that got there would be one over the lucky.
    if (found.reached == found.seeds) {
      found.simulated_s = MeanWithInterval(seconds, 0.95);
      found.tokens = MeanWithInterval(tokens, 0.95);
    }
    a.findings.times_to_loss.push_back(std::move(found));
  }
  return absl::OkStatus();
}

}  // namespace longhaul
