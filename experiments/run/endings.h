#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "experiments/elastic/group_lives.h"
#include "experiments/spec/spec.h"

namespace longhaul {

// Finds in a run's events why it failed. The first failure is the cause; ranks that failed after it
// are counted, not quoted. What stood still is the cause of what the others report, whichever came
// first, and so is a worker that a signal killed.
class RootCause {
 public:
  void Observe(const nlohmann::json& event);
  // What the caller found by itself. A standstill is told once and stays the cause.
  void StoodStill(const std::string& message);
  void Fail(const std::string& message);  // unless a cause is known

  // OK: no failure was told. OutOfRange: the loss diverged; FailedPrecondition: links were out of
  // bounds; Unavailable otherwise. Names the rank and its last step.
  absl::Status status() const;
  bool known() const { return cause_.has_value(); }
  bool stood_still() const { return stood_still_; }
  int64_t last_step() const;  // of any rank
  int64_t last_step(int rank) const;

 private:
  void Replace(int rank, const std::string& message);
  std::string Describe(const nlohmann::json& event) const;

  std::map<int, int64_t> last_step_;  // by rank
  std::optional<std::string> cause_;
  int rank_ = -1;         // of the cause; -1: none
  std::set<int> failed_;  // all that told a failure
  bool diverged_ = false;
  bool invalid_ = false;
  bool stood_still_ = false;
  bool killed_by_signal_ = false;
};

// When workers of a lab are ended that do not end by themselves: decisions alone, of one clock. The
// pool (worker_pool.h) sends the signals.

// What the others get after the first failure, to notice it and to end: a lost peer is seen after
// net.peer_deadline_s; then 5 s to tell.
absl::Duration GraceToEnd(const RunSpec& spec);

// When those are killed that a failure seen `now` leaves. DeadlineExceeded, the emulator's thread
// stands still: at once, nobody would notice anything.
absl::Duration KillDeadline(const absl::Status& failed, absl::Duration now, absl::Duration grace);

struct RunningWorker {
  pid_t pid;
  int group;
  absl::Duration stopped_for;  // 0: it runs
};
// Of a run that goes on without a lost group: what is left of the group half a second after the
// loss, and whoever has been stopped for longer than `deadline`.
std::vector<pid_t> WorkersToTerminate(std::span<const RunningWorker> workers,
                                      const GroupLives& groups, absl::Duration now,
                                      absl::Duration deadline);

// Says what ended a process that a signal killed, and names lack of memory only where the kernel
// said so: its counts of out-of-memory kills, of our control group (memory.events, or
// memory.oom_control of version 1) and of the machine (/proc/vmstat), are remembered when this is
// made and read again when a process has been killed.
class KilledBy {
 public:
  // A file's text; nullopt where it can't be read.
  using ReadFile = std::function<std::optional<std::string>(const std::string& path)>;
  explicit KilledBy(ReadFile read = ReadWholeFile);

  // "killed by signal 15 (Terminated)", "killed by signal 9 (Killed): out of memory ...".
  std::string Text(int signal) const;

 private:
  struct Kills {
    std::optional<int64_t> group, machine;  // since when, only the kernel knows
  };
  static std::optional<std::string> ReadWholeFile(const std::string& path);
  Kills Count() const;
  std::optional<int64_t> CountOfGroup() const;

  const ReadFile read_;
  const Kills before_;
};

}  // namespace longhaul
