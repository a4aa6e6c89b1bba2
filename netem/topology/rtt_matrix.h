#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace longhaul {

// Measured round-trip times: a square table. Its first row and first column name the nodes, in the
// same order; the corner and the diagonal may say anything.
//   rtt_ms,paris,tokyo
//   paris,,230
//   tokyo,228,
struct RttMatrix {
  std::vector<std::string> names;
  std::vector<std::vector<double>> rtt_ms;  // [from][to]; 0 on the diagonal
};

// InvalidArgument with file and line: not square, names that differ, no number, negative.
absl::StatusOr<RttMatrix> ReadRttMatrix(const std::string& file);
absl::StatusOr<RttMatrix> ParseRttMatrix(const std::string& text, const std::string& where);

}  // namespace longhaul
