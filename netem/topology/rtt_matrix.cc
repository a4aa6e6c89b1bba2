#include "netem/topology/rtt_matrix.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <sstream>

#include "netem/topology/text_file.h"

namespace longhaul {
namespace {

std::vector<std::string> Cells(const std::string& line) {
  std::vector<std::string> cells(1);
  for (char c : line) {
    if (c == ',') {
      cells.emplace_back();
    } else if (c != ' ' && c != '\r' && c != '"') {
      cells.back().push_back(c);
    }
  }
  return cells;
}

absl::Status At(const std::string& where, size_t line, const std::string& message) {
  return absl::InvalidArgumentError(fmt::format("{}:{}: {}", where, line, message));
}

}  // namespace

absl::StatusOr<RttMatrix> ParseRttMatrix(const std::string& text, const std::string& where) {
  RttMatrix matrix;
  std::istringstream lines(text);
  std::string line;
  size_t number = 0;
  while (std::getline(lines, line)) {
    ++number;
    const std::vector<std::string> cells = Cells(line);
    if (cells.size() == 1 && cells[0].empty()) continue;
    if (matrix.names.empty()) {
      matrix.names.assign(cells.begin() + 1, cells.end());
      if (matrix.names.empty()) return At(where, number, "want names in the first row");
      continue;
    }
    const size_t row = matrix.rtt_ms.size();
    if (row >= matrix.names.size() || cells.size() != matrix.names.size() + 1) {
      return At(where, number,
                fmt::format("not square: {} names in the first row, {} cells in row {}",
                            matrix.names.size(), cells.size() - 1, row + 1));
    }
    if (cells[0] != matrix.names[row]) {
      return At(
          where, number,
          fmt::format("row of '{}' where the first row has '{}'", cells[0], matrix.names[row]));
    }
    std::vector<double> rtts;
    for (size_t i = 0; i < matrix.names.size(); ++i) {
      const std::string& cell = cells[i + 1];
      double rtt_ms = 0;
      const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), rtt_ms);
      const bool number_ok = error == std::errc() && end == cell.data() + cell.size() &&
                             std::isfinite(rtt_ms) && rtt_ms >= 0;
      if (i != row && !number_ok) {
        return At(where, number, fmt::format("'{}' is no round-trip time in ms", cell));
      }
      rtts.push_back(i == row ? 0 : rtt_ms);
    }
    matrix.rtt_ms.push_back(std::move(rtts));
  }
  if (matrix.rtt_ms.size() == matrix.names.size() && !matrix.names.empty()) return matrix;
  return At(
      where, number,
      fmt::format("not square: {} columns, {} rows", matrix.names.size(), matrix.rtt_ms.size()));
}

absl::StatusOr<RttMatrix> ReadRttMatrix(const std::string& file) {
  const auto text = ReadTextFile(file);
  if (!text.ok()) return text.status();
  return ParseRttMatrix(*text, file);
}

}  // namespace longhaul
