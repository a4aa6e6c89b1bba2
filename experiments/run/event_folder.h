#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "experiments/spec/spec.h"
#include "netem/kernel/posix.h"

namespace longhaul {

// The events of workers that no command of ours watches (torchrun's, Slurm's): a folder that all
// hosts share, or one per host, copied together afterwards.
//   spec.toml                  the resolved spec; written by whoever comes first, equal for all
//   rank-00003-Xy12Ab.jsonl    what one process of rank 3 told (event_stream.h); never rewritten
// A process locks its file for as long as it lives (flock), so that a reader on the same file
// system can tell one that runs from one that was killed.

// Opens a new file of this rank in `folder`, which is made if need be, and writes its first event,
// "worker": the host and what the process was built from. FailedPrecondition: the folder holds the
// events of another spec. PermissionDenied, ...: the path, and what the system said.
absl::StatusOr<Fd> OpenEventFile(const std::string& folder, const RunSpec& spec, int rank);

// One process' file.
struct EventFile {
  std::string path;
  int64_t rank = -1;
  bool torn = false;         // its last line has no end: it was killed while writing, or is copied
                             // while it runs
  bool alive = false;        // locked by a process of this machine
  bool finished = false;     // it did all it should
  std::string failure = {};  // what it said; empty: nothing
  std::string lost = {};     // why its group could not go on, the run could; empty: nothing
  bool left = false;         // in order, as its script says
  int64_t last_step = 0;
  // Of its "worker" event.
  std::string host = {}, kernel = {}, cpu = {}, isa = {}, torch = {}, git_revision = {};
  std::string begun_utc = {};
};

// The processes that met: one start of all ranks, by torchrun's or the user's hand, and, where
// groups come and go, those that came later to the same store.
struct Attempt {
  struct Process {
    int64_t life;  // of its group: how often it had been started before in this attempt
    int64_t rank;
    friend auto operator<=>(const Process&, const Process&) = default;
  };
  int64_t id;  // "attempt" event: UTC microseconds of the first start
  std::map<Process, EventFile> files;
  // The last process of every rank.
  std::map<int64_t, const EventFile*> LastByRank() const;
};

struct EventFolder {
  std::string spec_toml;
  std::vector<Attempt> attempts;     // oldest first
  std::vector<EventFile> never_met;  // ended before all ranks had met
};

// Every event of one file, in order. DataLoss: a line that is none, with file and line. `torn` as
// in EventFile; may be null.
absl::Status ForEachEvent(const std::string& path,
                          const std::function<void(const nlohmann::json&)>& see,
                          bool* torn = nullptr);

// NotFound: no such folder, no spec.toml or no events in it. DataLoss: a line that is no event,
// with file and line; two files of one rank in one attempt.
absl::StatusOr<EventFolder> ReadEventFolder(const std::string& folder);

}  // namespace longhaul
