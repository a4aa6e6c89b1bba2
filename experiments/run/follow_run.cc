#include "experiments/run/follow_run.h"

#include <poll.h>
#include <signal.h>

#include <cerrno>

#include "experiments/run/run_process.h"
#include "experiments/train/event_stream.h"

namespace longhaul {
namespace {

// For a step and its checkpoint, once it was asked to stop.
constexpr int kTimeToStopMs = 60'000;

absl::Status Killed(RunProcess& process) {
  process.Kill();
  return absl::CancelledError("interrupted; what had been recorded is kept");
}

absl::Status Follow(RunProcess& process, bool checkpoints, const CancelSignal& cancel,
                    RunRecorder& recorder, RunView& view, Trace* trace) {
  bool asked = false;
  for (;;) {
    pollfd fds[2] = {{process.events_fd(), POLLIN, 0}, {cancel.fd(), POLLIN, 0}};
    const int ready = poll(fds, 2, asked ? kTimeToStopMs : -1);
    if (ready < 0 && errno != EINTR) return absl::InternalError("poll failed");
    if (ready == 0) return Killed(process);
    if (fds[1].revents != 0) {
      if (asked || cancel.Take() != SIGTERM || !checkpoints || !process.AskToStop()) {
        return Killed(process);
      }
      asked = true;
      continue;
    }
    if (fds[0].revents == 0) continue;
    absl::StatusOr<EventReader::More> more = process.Read([&](const nlohmann::json& event) {
      recorder.Observe(event);
      view.Observe(event);
      if (trace != nullptr) trace->Observe(event);
    });
    if (!more.ok()) return more.status();
    if (absl::Status s = recorder.Flush(); !s.ok()) return s;
    if (*more == EventReader::More::kYes) continue;
    const absl::Status ended = process.Finish();
    if (!asked || std::string(ended.message()).find(kAskedToStop) == std::string::npos) {
      return ended;
    }
    return absl::CancelledError(ended.message());
  }
}

}  // namespace

absl::Status FollowRun(const RunSpec& spec, const std::string& checkpoint_directory,
                       const CancelSignal& cancel, RunRecorder& recorder, RunView& view,
                       Trace* trace) {
  absl::StatusOr<std::unique_ptr<RunProcess>> process =
      RunProcess::Start(spec, checkpoint_directory);
  absl::Status outcome =
      process.ok() ? Follow(**process, !checkpoint_directory.empty(), cancel, recorder, view, trace)
                   : process.status();
  view.End();
  return recorder.Finish(outcome);
}

}  // namespace longhaul
