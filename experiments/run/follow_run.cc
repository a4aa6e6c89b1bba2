#include "experiments/run/follow_run.h"

#include <poll.h>

#include <cerrno>

#include "experiments/run/run_process.h"

namespace longhaul {
namespace {

absl::Status Follow(RunProcess& process, const CancelSignal& cancel, RunRecorder& recorder,
                    RunView& view) {
  for (;;) {
    pollfd fds[2] = {{process.events_fd(), POLLIN, 0}, {cancel.fd(), POLLIN, 0}};
    if (poll(fds, 2, -1) < 0 && errno != EINTR) return absl::InternalError("poll failed");
    if (fds[1].revents != 0) {
      process.Kill();
      return absl::CancelledError("interrupted; what had been recorded is kept");
    }
    if (fds[0].revents == 0) continue;
    absl::StatusOr<EventReader::More> more = process.Read([&](const nlohmann::json& event) {
      recorder.See(event);
      view.See(event);
    });
    if (!more.ok()) return more.status();
    if (absl::Status s = recorder.Flush(); !s.ok()) return s;
    if (*more == EventReader::More::kEnd) return process.Finish();
  }
}

}  // namespace

absl::Status FollowRun(const RunSpec& spec, const std::string& checkpoint_directory,
                       const CancelSignal& cancel, RunRecorder& recorder, RunView& view) {
  absl::StatusOr<std::unique_ptr<RunProcess>> process =
      RunProcess::Start(spec, checkpoint_directory);
  absl::Status outcome =
      process.ok() ? Follow(**process, cancel, recorder, view) : process.status();
  view.End();
  return recorder.Finish(outcome);
}

}  // namespace longhaul
