#pragma once

#include <string>

#include "absl/status/status.h"
#include "experiments/run/cancel_signal.h"
#include "experiments/run/run_recorder.h"
#include "experiments/run/run_view.h"
#include "experiments/trace/trace_span.h"

namespace longhaul {

// Runs one spec in processes of its own to its end, recording and showing its events. OK, or why it
// failed; Cancelled on SIGINT, SIGTERM or SIGHUP, and with SIGTERM a run over loopback that has a
// checkpoint directory first writes one. The run's row is finished either way. `trace` sees the events,
// too; may be null.
absl::Status FollowRun(const RunSpec& spec, const std::string& checkpoint_directory,
                       const CancelSignal& cancel, RunRecorder& recorder, RunView& view,
                       Trace* trace = nullptr);

}  // namespace longhaul
