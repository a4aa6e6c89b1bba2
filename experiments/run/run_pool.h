#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "experiments/record/record.h"
#include "experiments/run/cancel_signal.h"
#include "experiments/spec/campaign.h"

namespace longhaul {

// How far a campaign is; what its progress line and its time left come from.
struct CampaignProgress {
  size_t runs = 0, done = 0, running = 0;
  int64_t tokens = 0;       // of the runs still to do when the pool began
  int64_t tokens_done = 0;  // trained since, also by running ones
};

// Runs the planned runs in at most `jobs` processes at a time, in order, recording each. A run that
// diverges is an outcome; one that fails ends the pool after the others that run have ended.
// Cancelled on SIGINT or SIGTERM: the running ones are killed and recorded as interrupted.
// `on_progress` is called after every batch of events.
absl::Status RunAll(Record& record, int64_t experiment, const std::vector<PlannedRun>& planned,
                    int jobs, const CancelSignal& cancel,
                    const std::function<void(const CampaignProgress&)>& on_progress);

}  // namespace longhaul
