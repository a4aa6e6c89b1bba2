#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "experiments/run/killed_by.h"
#include "experiments/spec/spec.h"
#include "experiments/train/event_stream.h"

namespace longhaul {

// One run in processes of its own, followed through its events: a forked child for a run over
// loopback, a private lab with S x G workers over shaped links for ucx. Kill() or the destructor
// ends it and everything it started, and so does the death of the calling process.
// Thread safety: none. Start from the main thread, while no other thread exists.
class RunProcess {
 public:
  static absl::StatusOr<std::unique_ptr<RunProcess>> Start(const RunSpec& spec,
                                                           const std::string& checkpoint_directory);
  ~RunProcess();
  RunProcess(const RunProcess&) = delete;
  RunProcess& operator=(const RunProcess&) = delete;

  // To poll; readable when there are events or the run is over.
  int events_fd() const { return reader_.fd(); }

  // Reads the events that are there. kEnd: the run is over, call Finish().
  absl::StatusOr<EventReader::More> Read(const std::function<void(const nlohmann::json&)>& handle);

  // Waits for the process. OK, or why the run failed, with the rank and the step: OutOfRange when
  // the loss diverged, FailedPrecondition when links were out of bounds, Unavailable otherwise.
  absl::Status Finish();

  void Kill();

 private:
  RunProcess(pid_t pid, int events_fd) : pid_(pid), reader_(events_fd) {}
  void See(const nlohmann::json& event);
  std::string Describe(const nlohmann::json& event);

  pid_t pid_;  // 0: waited for
  EventReader reader_;
  const KilledBy killed_by_;
  std::map<int, int64_t> last_step_;  // by rank
  std::optional<std::string> failure_;
  bool diverged_ = false;
  bool invalid_ = false;
  bool killed_by_signal_ = false;
};

}  // namespace longhaul
