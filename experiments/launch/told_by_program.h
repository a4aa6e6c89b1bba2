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
//   {"t": 99.0, "final": 1.9, "standard_error": 0.02}
//   {"t": 99.0, "crossing": {"peer": 1, "codec": "int4-b64", "kind": "activation", "tensors": ..}}
// t: seconds of CLOCK_MONOTONIC; loss and final: nat a token; peer: a rank of the whole program.
struct ToldStep {
  int64_t step = 0;  // from 1
  std::optional<double> loss_nat = std::nullopt;
  int64_t tokens = 0;
  double at_s = 0;  // CLOCK_MONOTONIC
};

struct Told {
  std::map<int64_t, ToldStep> steps;  // by number; told twice, the later one
  std::optional<double> final_nat = std::nullopt, standard_error_nat = std::nullopt;
  std::vector<CrossingRow> crossings;  // sent by this rank; a row for each peer and direction
  int64_t bad_lines = 0;
  std::string first_bad;  // what was wrong with the first of them
};

// `ranks` of the program. A file that is not there is an empty Told: the program told nothing.
// Unavailable: it cannot be read. ResourceExhausted: above 256 MB.
absl::StatusOr<Told> ReadTold(const std::string& path, int64_t rank, int64_t ranks);
Told ParseTold(const std::string& text, int64_t rank, int64_t ranks);

}  // namespace longhaul
