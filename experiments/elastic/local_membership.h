#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/elastic/membership.h"
#include "experiments/spec/round_plan.h"
#include "experiments/spec/spec.h"

namespace longhaul {

// Process groups of one group's ranks, over new nodes of their own.
absl::StatusOr<std::vector<LocalTelemetry>> NewLocalGroup(const RunSpec& spec, int group);
// Joins the ranks of `groups`, each as NewLocalGroup made it, stage by stage: their `outer`.
void JoinLocalGroups(const RunSpec& spec, const std::vector<int>& groups, int64_t meeting,
                     std::vector<LocalTelemetry>& ranks);

// All groups in one process: the script alone says who is there (round_plan.h), so that a run over
// faults is as fast as one without and its bits are those of the same script over links. What costs
// time alone (slow, stops that end, links) is told and not done: a simulated clock does it.
std::unique_ptr<Membership> NewLocalMembership(const RunSpec& spec,
                                               std::vector<LocalTelemetry> ranks, EventSink& sink);

}  // namespace longhaul
