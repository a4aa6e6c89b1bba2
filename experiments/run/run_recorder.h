#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "experiments/record/record.h"
#include "experiments/record/row_json.h"
#include "experiments/run/ledgers.h"
#include "experiments/run/wire_bytes.h"
#include "experiments/spec/spec.h"

namespace longhaul {

// Turns one run's events into rows of its record. Events are kept until Flush writes them, so that
// what arrived together is one transaction a table. Also adds what only the whole run shows: the
// predicted bytes of each crossing, and the kernel's count of the path it took. Of a run that was
// resumed the crossings are those of the whole run: what they had counted up to the checkpoint is
// in the record.
class RunRecorder {
 public:
  RunRecorder(Record& record, int64_t run, const RunSpec& spec);

  void Observe(const nlohmann::json& event);
  absl::Status Flush();

  // Ends the run's row: ok, or by the status' code diverged (OutOfRange), interrupted (Cancelled),
  // invalid (FailedPrecondition: links out of bounds) or failed, with the message as the reason.
  // An OK outcome is not ok when the record lacks steps or bytes of the run: partial, DataLoss;
  // when a worker stood still, bytes on the links do not add up, or links were out of bounds before
  // it was resumed: invalid; when writing failed: failed.
  // Returns why the run is not plainly ok.
  absl::Status Finish(const absl::Status& outcome);

  // The last evaluation seen, nat/token; for the command's summary.
  const std::map<std::string, double>& losses() const { return losses_; }

 private:
  static const std::map<std::string, void (*)(RunRecorder&, const nlohmann::json&)>& Observers();
  template <typename Row>
  std::vector<Row>& Pending() {
    return std::get<std::vector<Row>>(pending_);
  }
  template <typename Row>
  static void Keep(RunRecorder& recorder, const nlohmann::json& event) {
    recorder.Pending<Row>().push_back(RowFrom<Row>(event));
  }
  template <typename Row>
  absl::Status FlushRows();
  absl::Status FlushFacts();
  absl::Status SeeResumption(int64_t step);
  absl::Status FlushCheckpoints();
  void SeeDisturbance(const std::string& fact, double share);
  std::string Flaws(const absl::Status& bytes) const;
  WirePart Wire() const;  // of what has been seen
  absl::Status WholeRounds() const;
  // What keeps a run that trained to its end from being ok.
  absl::Status Whole(const std::string& flaws) const;

  Record& record_;
  const int64_t run_;
  const RunSpec& spec_;
  std::map<std::string, std::string> facts_;
  std::string emulator_ = "none";
  // Rows until they are written, in this order.
  std::tuple<std::vector<StepRow>, std::vector<SimulatedRow>, std::vector<FaultRow>,
             std::vector<CodecSwitchRow>, std::vector<RoundRow>, std::vector<LinkRow>,
             std::vector<EvaluationRow>, std::vector<CrossingErrorRow>, std::vector<OuterDeltaRow>>
      pending_;
  WireCounts wire_;                            // of the whole training
  std::map<int64_t, double> longest_still_s_;  // by rank
  // By fact, the largest of all ranks: kStillShareFact, ...
  std::map<std::string, double> disturbances_;
  CrossingLedger crossings_;
  std::vector<CrossingRow> told_crossings_;  // of a [program]
  int64_t repeated_exchanges_ = 0;
  struct CheckpointCounts {
    WireCounts wire;
    std::set<int64_t> ranks;  // that have told everything
  };
  std::map<int64_t, CheckpointCounts> checkpoints_;  // by step; until every rank has told
  int64_t resumed_from_ = 0;                         // step; 0: not resumed
  int64_t restored_ = 0;                             // of another run's checkpoint; 0: none
  std::vector<CrossingRow> earlier_;                 // what crossings had counted until then
  std::string earlier_flaws_;
  absl::Status resumption_;
  std::map<std::string, double> losses_;
  FaultLedger faults_;
  std::vector<CodecSwitchRow> switches_;  // of the whole run
};

// The row a run starts with: everything known before its first process exists.
RunRow NewRunRow(const RunSpec& spec, int64_t experiment_id, const std::string& arm);

}  // namespace longhaul
