#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "experiments/train/branching.h"
#include "experiments/train/capture.h"
#include "experiments/train/event_stream.h"
#include "experiments/train/local_telemetry.h"
#include "pp_group/trainer.h"

namespace longhaul {

class BoundaryCodecs;
class ClockedSteps;
class Membership;
class TraceRecorder;

struct RunLoopOptions {
  int64_t steps;  // of the whole run
  OuterPlan outer;
  int64_t eval_rows;                 // 0: no evaluation
  bool trains;                       // false: compute is injected, there are no losses
  bool forward_is_identity;          // the forward boundary codec sends the source's own bytes
  std::string checkpoint_directory;  // empty: none
  int64_t checkpoint_every;          // steps; 0: only what is there is resumed
  int64_t checkpoints_kept;          // of each rank
  std::string restore_from;          // another run's folder to start from; empty: none
  Branching branching = {};
  std::string interface;        // whose kernel counters are reported; empty: none
  int phase_fd = -1;            // phase_gate.h
  std::optional<int> gpu = {};  // that the stages are on
  // Asked after every step; true: a checkpoint is written, where there is a directory, and the run
  // ends with Cancelled. Only where all ranks of the run are local. May be empty.
  std::function<bool()> stop_asked = {};
  std::shared_ptr<BoundaryCodecs> codecs = nullptr;  // what the ranks' `watch` asks; may be none
  std::shared_ptr<Capture> capture = nullptr;        // what it fills; may be none
  std::shared_ptr<TraceRecorder> trace = nullptr;    // what the ranks tell; may be none
  // After the last evaluation, where training has finished; may be empty.
  std::function<absl::Status(Trainer&)> save_weights = {};
  ClockedSteps* clocked = nullptr;   // of a run with a simulated clock
  Membership* membership = nullptr;  // the trainer's keeper where groups come and go
  bool resumes = true;               // loads the checkpoint that the directory may have
  bool joins = false;  // started anew: the trainer has the state of the others, not a checkpoint's
};

// Drives the trainer from where it stands (a checkpoint in checkpoint_directory is loaded first) to
// the last step, evaluates with the codec on and off, and emits everything as events. The same loop
// runs all ranks of an in-process run and the one rank of a worker. Returns the trainer's error; it
// has been emitted as "failed" by then, with the step. Divergence is OutOfRange ("diverged in step N,
// group G, stage S: ..."), and its step is not emitted.
absl::Status RunLoop(Trainer& trainer, const std::vector<LocalTelemetry>& ranks,
                     const RunLoopOptions& options, FdEventSink& sink);

}  // namespace longhaul
