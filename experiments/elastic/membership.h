#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "experiments/record/record_rows.h"
#include "experiments/spec/fault_script.h"
#include "experiments/train/event_stream.h"
#include "experiments/train/run_loop.h"
#include "pp_group/state/round_keeper.h"
#include "pp_group/trainer.h"

namespace longhaul {

// Groups that come and go, as the run loop sees them: the keeper of rounds that the trainer asks,
// and what happens around steps. One thread.
class Membership : public RoundKeeper {
 public:
  // Faults of the script that strike before inner step `step` (1-based) of local groups.
  virtual absl::Status BeforeStep(Trainer& trainer, int64_t step) = 0;

  // A step of the local ranks is done, its outer step included.
  virtual void AfterStep(const std::vector<StepReport>&) {}

  // Before a checkpoint of `step` is written below *directory, and after: faults that strike there.
  virtual absl::Status BeforeCheckpoint(int64_t, std::string*) { return absl::OkStatus(); }
  virtual void AfterCheckpoint(int64_t) {}

  // After an outer step: groups that join take over the state. Fills joiners and lost of `round`.
  virtual absl::Status AfterRound(Trainer& trainer, RoundRow* round) = 0;

  // The local ranks that are there now, by rank; changes in BeforeStep, in steps and in AfterRound.
  virtual const std::vector<LocalTelemetry>& ranks() const = 0;

  // Whether this process is the one that tells of a round with these members.
  virtual bool TellsOf(const std::vector<int>& members) const = 0;
};

// "0 2 3".
std::string GroupList(const std::vector<int>& groups);

}  // namespace longhaul
