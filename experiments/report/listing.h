#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/record/record.h"

namespace longhaul {

// What records hold, run by run: `longhaul list` and the JSON of `run` and `measure`. Read from the
// records alone; one that is being written shows what has been written so far.

struct ListedRun {
  RunRow row;
  // Recorded by the last stage of every group; of one, where groups come and go.
  int64_t steps_done = 0;
  // nullopt: the stored spec is one that this version can't read.
  std::optional<int64_t> steps_planned = std::nullopt;
  // Final held-out loss, nat per token, with its standard error over rows: codec off at evaluation
  // where that was evaluated, else on. Without any: nullopt.
  std::optional<EvaluationRow> held_out = std::nullopt;
  // Of the last recorded step, mean over groups.
  std::optional<double> train_loss_nat = std::nullopt;
  // Tokens of the recorded steps over the time that they took.
  std::optional<double> tokens_per_s = std::nullopt;
  // Of a run with a simulated clock: when its last recorded step would have ended for all.
  std::optional<double> simulated_s = std::nullopt;
  // Changes of boundaries' codecs, in the order of steps.
  std::vector<CodecSwitchRow> codec_switches = {};
};

struct ListedExperiment {
  ExperimentRow row;
  std::vector<ListedRun> runs = {};
  int64_t planned = 0;  // arms x seeds of a campaign's plan; 0 for a single run
  int64_t ended = 0;    // of those, ok or diverged: what `measure` does not run again
  std::vector<EstimateRow> estimates = {};
  // "running", "complete", or "incomplete": neither.
  std::string state() const;
};

struct ListedRecord {
  std::string folder;
  std::string error;  // why it can't be read; "" where it can
  std::vector<ListedExperiment> experiments;
};

absl::StatusOr<ListedExperiment> ListExperiment(const Record& record, const ExperimentRow& row);
absl::StatusOr<ListedRecord> ListRecord(const Record& record);

// The record of `folder`, or, where it has none of its own, those of the folders below it (three
// levels), by name. A record that can't be read is listed with its error. NotFound: no such folder.
absl::StatusOr<std::vector<ListedRecord>> ListRecordsBelow(const std::string& folder);

// "2 x 4", G and S; of a launched program, whose ranks are to each other what it makes of them, "8
// ranks".
std::string ShapeOf(const RunRow& run);

// "run 3 of FOLDER/longhaul.sqlite: ok, 6/6 steps, held-out loss 4.1 +-0.01 nat, 900 tokens/s".
absl::StatusOr<std::string> RunLine(const Record& record, int64_t run);

// For a terminal; ends with a newline. `folder` is what was asked for.
std::string ListingText(std::span<const ListedRecord> records, const std::string& folder);

}  // namespace longhaul
