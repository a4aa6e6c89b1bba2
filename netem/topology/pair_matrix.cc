#include "netem/topology/pair_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>

#include "base/status_macros.h"
#include "netem/topology/figure_text.h"
#include "netem/topology/text_file.h"
#include "netem/topology/topology.h"

namespace longhaul {
namespace {

char SeparatorOf(const std::string& first_row) {
  for (char separator : {'\t', ';'}) {
    if (first_row.find(separator) != std::string::npos) return separator;
  }
  return ',';
}

// Without quotes, and without what is blank around them.
std::vector<std::string> Cells(const std::string& line, char separator) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == separator && !quoted) {
      cells.emplace_back();
    } else {
      cells.back().push_back(c);
    }
  }
  for (std::string& cell : cells) {
    cell.erase(0, cell.find_first_not_of(" \t\r"));
    cell.erase(cell.find_last_not_of(" \t\r") + 1);
  }
  return cells;
}

// What the corner says of the cells, where it is not what they are to be; "": nothing.
std::string WhyOtherCells(std::string_view corner, CellKind kind) {
  const bool of_time = kind.what.ends_with(" ms"), of_rate = kind.what.ends_with("Mbit/s");
  const std::vector<double> units = of_time   ? TimeUnitsIn(corner)
                                    : of_rate ? RateUnitsIn(corner)
                                              : std::vector<double>();
  const double wanted = of_time ? 1e-3 : 1e6;
  for (const double unit : units) {
    if (unit != wanted) return "another unit";
  }
  const std::string small = InSmallLetters(corner);
  for (const char* one_way : {"one way", "one-way", "one_way", "oneway", "owd"}) {
    if (kind.what == kRttCells.what && small.find(one_way) != small.npos) return "one-way delays";
  }
  return "";
}

std::optional<double> NumberOf(std::string cell, char separator, CellKind kind) {
  if (separator != ',') std::replace(cell.begin(), cell.end(), ',', '.');
  if (kind.share && cell.ends_with('%')) {
    const auto share = ReadShare("share", cell);
    return share.ok() && *share >= 0 && *share <= 1 ? std::optional(*share) : std::nullopt;
  }
  double number = 0;
  const char* cell_end = cell.data() + cell.size();
  const auto [end, error] = std::from_chars(cell.data(), cell_end, number);
  const bool good = error == std::errc() && end == cell_end && std::isfinite(number) &&
                    number >= 0 && !(kind.share && number >= 1) && !(kind.above_0 && number == 0);
  return good ? std::optional(number) : std::nullopt;
}

class MatrixParser {
 public:
  MatrixParser(std::string where, CellKind kind) : where_(std::move(where)), kind_(kind) {}

  absl::StatusOr<PairMatrix> Parse(const std::string& text) {
    std::istringstream lines(text);
    absl::Status s;
    for (std::string line; s.ok() && std::getline(lines, line);) {
      ++number_;
      if (line.find_first_not_of(" \t\r,;\"") == std::string::npos) continue;
      s = matrix_.names.empty() ? ReadNames(line) : ReadRow(line);
    }
    if (!s.ok()) return s;
    if (matrix_.cells.size() == matrix_.names.size() && !matrix_.names.empty()) return matrix_;
    return At(
        fmt::format("not square: {} columns, {} rows", matrix_.names.size(), matrix_.cells.size()));
  }

 private:
  absl::Status At(const std::string& message) const {
    return absl::InvalidArgumentError(fmt::format("{}:{}: {}", where_, number_, message));
  }

  absl::Status ReadNames(const std::string& line) {
    separator_ = SeparatorOf(line);
    const std::vector<std::string> cells = Cells(line, separator_);
    if (const std::string why = WhyOtherCells(cells[0], kind_); !why.empty()) {
      return At(fmt::format("'{}' names {}; want a {} in each cell", cells[0], why, kind_.what));
    }
    matrix_.names.assign(cells.begin() + 1, cells.end());
    if (matrix_.names.empty()) {
      return At("want names in the first row, separated by commas, semicolons or tabs");
    }
    for (auto name = matrix_.names.begin(); name != matrix_.names.end(); ++name) {
      if (name->empty()) {
        return At(fmt::format("name {} of {} is empty; does the row end with a separator?",
                              name - matrix_.names.begin() + 1, matrix_.names.size()));
      }
      if (auto s = CheckNodeName(fmt::format("'{}'", *name), *name); !s.ok()) {
        return At(std::string(s.message()));
      }
      const auto is_same = [&](const std::string& other) {
        return InSmallLetters(other) == InSmallLetters(*name);
      };
      const auto other = std::find_if(matrix_.names.begin(), name, is_same);
      if (other == name) continue;
      return At(*other == *name ? fmt::format("'{}' is named twice", *name)
                                : fmt::format("'{}' and '{}' are one name to a lookup, which "
                                              "ignores case",
                                              *other, *name));
    }
    return absl::OkStatus();
  }

  absl::Status ReadRow(const std::string& line) {
    const std::vector<std::string> cells = Cells(line, separator_);
    const std::vector<std::string>& names = matrix_.names;
    const size_t row = matrix_.cells.size();
    if (row >= names.size() || cells.size() != names.size() + 1) {
      return At(fmt::format("not square: {} names in the first row, {} cells in row {}",
                            names.size(), cells.size() - 1, row + 1));
    }
    if (cells[0] != names[row]) {
      return At(fmt::format("row of '{}' where the first row has '{}'", cells[0], names[row]));
    }
    std::vector<double> numbers;
    for (size_t i = 0; i < names.size(); ++i) {
      const auto number = NumberOf(cells[i + 1], separator_, kind_);
      if (i != row && !number) {
        return At(fmt::format("{} > {}: {} {}", names[row], names[i],
                              cells[i + 1].empty() ? "the cell is empty: want a"
                                                   : fmt::format("'{}' is no", cells[i + 1]),
                              kind_.what));
      }
      numbers.push_back(i == row ? 0 : *number);
    }
    matrix_.cells.push_back(std::move(numbers));
    return absl::OkStatus();
  }

  const std::string where_;
  const CellKind kind_;
  PairMatrix matrix_;
  char separator_ = ',';
  size_t number_ = 0;  // of the line
};

}  // namespace

absl::StatusOr<PairMatrix> ParsePairMatrix(const std::string& text, const std::string& where,
                                           CellKind kind) {
  return MatrixParser(where, kind).Parse(text);
}

absl::StatusOr<PairMatrix> ReadPairMatrix(const std::string& file, CellKind kind) {
  ASSIGN_OR_RETURN(const auto text, ReadTextFile(file));
  return ParsePairMatrix(text, file, kind);
}

}  // namespace longhaul
