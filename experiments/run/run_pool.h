#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "experiments/record/record.h"
#include "experiments/run/cancel_signal.h"
#include "experiments/spec/campaign.h"

namespace longhaul {

// How far a campaign is; what its progress line and its time left come from.
struct CampaignProgress {
  size_t runs = 0, done = 0, running = 0;
  size_t elsewhere = 0;     // trained just now by other processes
  int64_t tokens = 0;       // of the runs still to do when the pool began
  int64_t tokens_done = 0;  // trained since, also by running ones
};

// How much of a machine a pool may keep busy.
struct PoolLimits {
  int jobs;       // runs at a time
  int64_t cores;  // that they and the campaign's runs of other processes need together; one run
                  // goes ahead whatever it needs when nothing else trains
  bool invalid_is_outcome = false;  // a run whose links or bytes were out of bounds ends nothing
  bool by_rate = false;  // fewer at a time where more do not train faster together (rate_rule.h)
  std::vector<int> gpus = {};  // over which runs on "cuda" are spread; none: as their specs say
  std::string gpu_sharing =
      "";  // how runs share a GPU (gpu_sharing.h), for their records; "": none has one
};

// The row that a planned run begins with.
RunRow PlannedRow(const PlannedRun& planned, int64_t experiment);

// Trains the planned runs, in order, and records each. Every run is claimed in the record first:
// what another process trains or has trained since is left to it, what a dead one had begun is
// trained again, and the pool ends when nothing is left to anybody. A run that diverges is an
// outcome; one that fails ends the pool after the others that run have ended. Cancelled on SIGINT,
// SIGTERM or SIGHUP: the running ones are killed and recorded as interrupted. `on_progress` is
// called after every batch of events.
absl::Status RunAll(Record& record, int64_t experiment, const std::vector<PlannedRun>& planned,
                    const PoolLimits& limits, const CancelSignal& cancel,
                    const std::function<void(const CampaignProgress&)>& on_progress);

}  // namespace longhaul
