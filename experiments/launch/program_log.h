#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/record/record_rows.h"

namespace longhaul {

// What a program told by `longhaul.log(...)`: JSON objects, one a line, in a file of each rank's own,
// which the program appends to. A line that is not one of ours costs that line and is counted.
//   {"t": 12.5, "step": 3, "loss": 2.1, "tokens": 4096}
//   {"t": 99.0, "final": 1.9, "standard_error": 0.02, "final_on": 1.95}
//   {"t": 99.0, "crossing": {"peer": 1, "codec": "int4-b64", "kind": "activation", "tensors": ..}}
//   {"t": 0.5, "environment": {"LONGHAUL_FORWARD": "int4-b64"}}   variables that it went by
// t: seconds of CLOCK_MONOTONIC; loss and final: nat a token, "nan" where it is no finite number;
// peer: a rank of the whole program.
struct LoggedStep {
  int64_t step = 0;  // from 1
  std::optional<double> loss_nat = std::nullopt;
  int64_t tokens = 0;
  double at_s = 0;  // CLOCK_MONOTONIC
};

struct ProgramLog {
  std::map<int64_t, LoggedStep> steps;  // by number; told twice, the later one
  std::optional<double> final_nat = std::nullopt, standard_error_nat = std::nullopt;
  std::optional<double> final_on_nat = std::nullopt;  // the same weights, evaluated with the codecs
  // Sent by this rank: a row for each peer and direction. What went exact beside coded tensors of its
  // direction is of kOther.
  std::vector<CrossingRow> crossings;
  std::map<std::pair<Direction, std::string>, int64_t> payload_by_codec;  // bytes, of all peers
  std::map<std::string, std::string> environment;
  int64_t bad_lines = 0;
  std::string first_bad;         // what was wrong with the first of them
  int64_t group = 0, stage = 0;  // of its steps' rows; unless told otherwise group 0, stage: rank

  // The rank's place where ranks are groups of `stages`: what it sent to another group is kOuter.
  void RanksAre(int64_t its_group, int64_t its_stage, int64_t stages);
};

// A step lasts from the one before it of the same rank; the first from `began_s`, CLOCK_MONOTONIC.
std::vector<StepRow> StepsOf(const ProgramLog& log, double began_s);

// `ranks` of the program. A file that is not there is an empty log: the program told nothing.
// Unavailable: it cannot be read. ResourceExhausted: above 256 MB.
absl::StatusOr<ProgramLog> ReadProgramLog(const std::string& path, int64_t rank, int64_t ranks);
ProgramLog ParseProgramLog(const std::string& text, int64_t rank, int64_t ranks);

}  // namespace longhaul
