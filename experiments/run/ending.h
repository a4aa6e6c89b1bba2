#pragma once

#include <sys/types.h>

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "experiments/elastic/group_lives.h"
#include "experiments/spec/spec.h"

namespace longhaul {

// When workers of a lab are ended that do not end by themselves: decisions alone, of one clock. The
// pool (worker_pool.h) sends the signals.

// What the others get after the first failure, to notice it and to end: a lost peer is seen after
// net.peer_deadline_s; then 5 s to tell.
absl::Duration GraceToEnd(const RunSpec& spec);

// When those are killed that a failure seen `now` leaves. DeadlineExceeded, the emulator's thread
// stands still: at once, nobody would notice anything.
absl::Duration KillAt(const absl::Status& failed, absl::Duration now, absl::Duration grace);

struct RunningWorker {
  pid_t pid;
  int group;
  absl::Duration stopped_for;  // 0: it runs
};
// Of a run that goes on without a lost group: what is left of the group half a second after the
// loss, and whoever has been stopped for longer than `deadline`.
std::vector<pid_t> WhomToEnd(std::span<const RunningWorker> workers, const GroupLives& groups,
                             absl::Duration now, absl::Duration deadline);

}  // namespace longhaul
