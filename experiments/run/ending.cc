#include "experiments/run/ending.h"

namespace longhaul {
namespace {

constexpr absl::Duration kTimeToTell = absl::Seconds(5);
constexpr absl::Duration kTimeOfALostGroup = absl::Milliseconds(500);

}  // namespace

absl::Duration GraceToEnd(const RunSpec& spec) {
  return absl::Seconds(spec.net.peer_deadline_s) + kTimeToTell;
}

absl::Duration KillAt(const absl::Status& failed, absl::Duration now, absl::Duration grace) {
  return absl::IsDeadlineExceeded(failed) ? now : now + grace;
}

std::vector<pid_t> WhomToEnd(std::span<const RunningWorker> workers, const GroupLives& groups,
                             absl::Duration now, absl::Duration deadline) {
  std::vector<pid_t> ended;
  for (const RunningWorker& worker : workers) {
    if (groups.IsLostFor(worker.group, kTimeOfALostGroup, now) || worker.stopped_for > deadline) {
      ended.push_back(worker.pid);
    }
  }
  return ended;
}

}  // namespace longhaul
