#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "netem/emulator.h"
#include "netem/lab_control/path_change.h"

namespace longhaul {

// A change that was made later than it was due.
struct LateChange {
  std::string what;
  absl::Duration at;    // after the lab's start: when it was due
  absl::Duration late;  // more than kLateChange
};
inline constexpr absl::Duration kLateChange = absl::Milliseconds(100);

// Who keeps which path down, on the caller's clock. An outage ends by itself and ends nothing but
// itself: a path is up again once the last of its outages is over and nobody took it down without
// an end. Thread safety: none.
class Outages {
 public:
  using Pair = std::pair<int, int>;  // from, to

  void TakeDown(Pair path) { paths_[path].taken_down = true; }
  // Ends everything that keeps the path down, its outages too.
  void BringUp(Pair path) { paths_.erase(path); }
  void Begin(Pair path, absl::Time until) { paths_[path].ends.push_back(until); }

  bool IsDown(Pair path) const { return paths_.contains(path); }
  // When the next outage ends.
  std::optional<absl::Time> next_end() const;
  // Forgets the outages that are over by then, and says of which paths.
  std::vector<Pair> EndBy(absl::Time now);

 private:
  struct Keepers {
    bool taken_down = false;
    std::vector<absl::Time> ends;
  };
  std::map<Pair, Keepers> paths_;  // those that are down
};

// Everything that changes a lab's paths while it is up: `set`, the schedule of its topology, and
// the ends of outages, on the caller's clock. Thread safety: none.
class LabChanges {
 public:
  using Pair = std::pair<int, int>;

  // The schedule counts from `started`. The emulator outlives this.
  LabChanges(Emulator& emulator, absl::Time started)
      : emulator_(emulator), started_(started), schedule_(emulator.topology().changes) {}

  // KEY=VALUE words for the paths that are meant; all are judged before one is changed. Returns
  // them.
  absl::StatusOr<std::vector<Pair>> Set(const std::string& selector,
                                        const std::vector<std::string>& words, absl::Time now);

  // When something is due next, and what is due by now.
  std::optional<absl::Time> next() const;
  void RunUntil(absl::Time now);

  bool IsDown(Pair path) const { return outages_.IsDown(path); }
  // How many changes the path has seen, its outages' ends among them.
  int64_t count(Pair path) const;
  // Told once they were made; the first hundred of them.
  const std::vector<LateChange>& late() const { return late_; }
  const std::string& failure() const { return failure_; }  // of the last that failed; "": none

 private:
  absl::Status Apply(const PathChange& change, absl::Time now);
  absl::Status SyncCarrier(Pair path);
  void RunScheduled(const ScheduledChange& change, absl::Time now);
  void EndOutages(absl::Time due, absl::Time now);
  void NoteLateness(const std::string& what, absl::Time due, absl::Time now);
  std::string Name(Pair path) const;

  Emulator& emulator_;
  const absl::Time started_;
  const std::vector<ScheduledChange> schedule_;  // in the order of their times
  size_t next_scheduled_ = 0;
  Outages outages_;
  std::set<Pair> down_;  // as the emulator was told
  std::map<Pair, int64_t> counts_;
  std::vector<LateChange> late_;
  std::string failure_;
};

}  // namespace longhaul
