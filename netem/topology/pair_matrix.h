#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace longhaul {

// A figure for every ordered pair of nodes: a square table. Its first row and first column name the
// nodes, in the same order; the diagonal may say anything, the corner all but another unit. Cells are
// separated by commas, semicolons or tabs, whichever the first row has, and may be in quotes; with the
// latter two a number may have a decimal comma.
//   rtt_ms,paris,tokyo
//   paris,,230
//   tokyo,228,
struct PairMatrix {
  std::vector<std::string> names;
  std::vector<std::vector<double>> cells;  // [from][to]; 0 on the diagonal
};

// What the cells are.
struct CellKind {
  std::string_view what;  // for messages: "round-trip time in ms"
  bool share = false;     // probabilities below 1, or "1%"
  bool above_0 = false;   // 0 is none: a hole in the data
};
inline constexpr CellKind kRttCells{.what = "round-trip time in ms", .above_0 = true};

// InvalidArgument with file, line and, of a cell, the pair: not square, names that differ, repeat or
// are no node's (CheckNodeName), no number, negative, a corner with another unit than `what`; what
// ReadTextFile says.
absl::StatusOr<PairMatrix> ReadPairMatrix(const std::string& file, CellKind kind = kRttCells);
absl::StatusOr<PairMatrix> ParsePairMatrix(const std::string& text, const std::string& where,
                                           CellKind kind = kRttCells);

}  // namespace longhaul
