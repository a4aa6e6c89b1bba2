#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "experiments/run/machine_limits.h"
#include "experiments/run/memory_plan.h"
#include "experiments/run/run_pool.h"
#include "experiments/spec/campaign.h"
#include "experiments/spec/spec.h"

namespace longhaul {

// ResourceExhausted in one line, with what is predicted and what there is, where `plans` together
// need more memory than `memory`, or more than half of `threads`: the rest is other programs'.
absl::Status CheckResources(const std::vector<ResourcePlan>& plans, const Remaining& memory,
                            const Remaining& threads);

// Of runs that want to be at work: those that the limits let be so together, the largest in memory
// first; one goes ahead whatever cores it needs.
struct PlannedLoad {
  ResourcePlan plan;
  int64_t cores;
};
std::vector<ResourcePlan> LargestTogether(std::vector<PlannedLoad> all, const PoolLimits& limits);

// Everything that can be found wrong with a run before anything of it exists: that this machine has
// the memory and the threads, that the data can be read, that the trainer takes them.
// ResourceExhausted, InvalidArgument, or what the corpus says.
absl::Status Preflight(const RunSpec& spec);
// The same of each run of a campaign, and of the largest that `limits` let run at a time together;
// the message names the arm.
absl::Status Preflight(const CampaignSpec& campaign, const PoolLimits& limits);

}  // namespace longhaul
