#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "experiments/spec/fault_script.h"

namespace longhaul {

// In the message of a run that was asked to stop and did, with a checkpoint (in_process.h).
inline constexpr char kAskedToStop[] = "asked to stop after step ";

// What costs a group that is one of many its place, and not the run: a peer that is gone or late, a
// round settled without it, an end in order.
bool IsGroupLoss(const absl::Status& failure);

// What a run tells about itself while it runs: one JSON object a line, key "event" first. Workers
// in the lab, and the processes of a campaign, share one pipe whose other end is the command, the
// only writer of the record. A line stays below PIPE_BUF (4096 bytes), so that lines of many
// writers never mix; a longer one is an error here, not a torn line there.
//
// "step", "link", "error", "evaluation", "round" and "fault" carry a row of the record, whose keys
// stand in record/row_fields.h; those of a worker have its rank beside them. The others:
//
//   started     rank, group, stage, pid, node           (in one process: rank 0, ranks, pid, node)
//   fact        key, value                              (one row of the run's facts)
//   crossing    rank, group, stage, group_kind, peer, sent, codec, tensors, elements, *_bytes, *_s,
//               nmse_samples, nmse_mean, nmse_max, payload_hash, checkpoint
//   path        from, to, seconds, packets, bytes, drops_*, checkpoint  (of the emulator)
//   node        node, received, delivered, checkpoint   (bytes: its interface's, the emulator's)
//               checkpoint: counted until the one of that step; 0 or none: in the whole training
//   checkpoint  rank, step                              (written; its crossings and paths are told)
//   stillness   rank, longest_s                         (this worker did not run for so long)
//               still_share, core_wait_share, stolen_share  (of its training; facts of these names)
//   kernel      rank, phase, tx_bytes, rx_bytes         (counters of the node's interface)
//   failed      rank, step, diverged, invalid, message  (the run cannot go on, or is no evidence)
//               stood_still                             (of the links: the cause of all other
//                                                        failures)
//               who                                     (where it is no rank's: "the lab")
//   told_crossing                                       (a row of the record, as a program told it)
//   exited      rank, message, by_signal                (a worker process ended, not in order)
//   worker      rank, host, kernel, cpu, ..., begun_utc (first in a file of events, event_folder.h)
//   attempt     id, life                                (all ranks have met; equal for all of them;
//                                                        life: of a group that comes and goes)
//   lost        rank, step, message                     (a group cannot go on, the run can)
//   finished    rank                                    (this rank did all it should)
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void Emit(const nlohmann::json& event) = 0;
};

// Writes lines to a descriptor it does not own. A broken pipe is kept and told by status():
// a worker whose command is gone stops at its next step.
class FdEventSink : public EventSink {
 public:
  explicit FdEventSink(int fd) : fd_(fd) {}
  void Emit(const nlohmann::json& event) override;
  // Emits "failed" for the first failure of this process and nothing for those it drags along.
  // `rank` -1: not a rank's failure; `step`: finished steps. OutOfRange: diverged; Aborted:
  // invalid, the links were out of bounds; DeadlineExceeded without a rank: the links stood still.
  void EmitFailure(int rank, int64_t step, const absl::Status& failure);
  const absl::Status& status() const { return status_; }
  // The run goes on without this process (IsGroupLoss): such a failure is told as "lost".
  void RunGoesOn() { run_goes_on_ = true; }

 private:
  const int fd_;
  bool failed_ = false, run_goes_on_ = false;
  absl::Status status_;
};

// Cuts what arrives on a descriptor into lines and parses them.
class EventReader {
 public:
  explicit EventReader(int fd) : fd_(fd) {}
  enum class More { kYes, kEnd };
  // Reads what is there (blocks when nothing is, unless the descriptor is non-blocking) and calls
  // `handle` per event. DataLoss: a line that is not an event, quoted.
  template <typename Handle>
  absl::StatusOr<More> Read(Handle handle) {
    absl::StatusOr<bool> open = Fill();
    if (!open.ok()) return open.status();
    std::string line;
    while (NextLine(&line)) {
      absl::StatusOr<nlohmann::json> event = Parse(line);
      if (!event.ok()) return event.status();
      handle(*event);
    }
    return *open ? More::kYes : More::kEnd;
  }
  int fd() const { return fd_; }
  // What has been read ends in the middle of a line.
  bool torn() const { return !pending_.empty(); }

 private:
  absl::StatusOr<bool> Fill();
  bool NextLine(std::string* line);
  static absl::StatusOr<nlohmann::json> Parse(const std::string& line);

  const int fd_;
  std::string pending_;
};

// A fault that struck, as the event that says so; `said`: what came of it. Of one that the plan of
// groups stands for, without more to say: kByPlan.
void EmitFault(const Fault& fault, int64_t step, const std::string& said, EventSink& sink);

}  // namespace longhaul
