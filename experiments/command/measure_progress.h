#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "experiments/command/output.h"
#include "experiments/run/run_pool.h"
#include "experiments/spec/campaign.h"

namespace longhaul {

// `jobs` runs at a time, whatever they need; 0: as many as the cores hold.
PoolLimits LimitsOf(int jobs);

// Trains what the record has not finished of `runs`, with a line of progress on `out`, which first
// says how many are done and who else is at work. Errors as RunAll.
absl::Status TrainTheRest(Record& record, int64_t experiment, const std::vector<PlannedRun>& runs,
                          const PoolLimits& limits, std::FILE* out);

// `measure --list`: every planned run with its id (0 to N - 1: the same for the same plan), arm,
// seed, tokens and cores, a line each, or one document with --json.
absl::Status ListPlannedRuns(const CampaignSpec& campaign, CommandOutput& out);

// `measure --run ID --records DIR`: one run of the plan, in a record of its own,
// DIR/<ID, four digits>/longhaul.sqlite; no other process needs to be reachable. Goes on from a
// checkpoint that an earlier attempt left. Cancelled: stopped by SIGTERM with a checkpoint (over
// loopback; over links without), or by another signal; the same command goes on.
// OutOfRange: no such run. `experiment` as for Record::BeginExperiment.
absl::Status MeasureOneRun(const CampaignSpec& campaign, const ExperimentRow& experiment,
                           int64_t id, const std::string& records, CommandOutput& out);

}  // namespace longhaul
