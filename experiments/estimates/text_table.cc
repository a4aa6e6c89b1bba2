#include "experiments/estimates/text_table.h"

#include <algorithm>

namespace longhaul {
namespace {

bool LooksNumeric(const std::string& cell) {
  return !cell.empty() && std::string("0123456789+-.<>~[").find(cell[0]) != std::string::npos;
}

// Terminal columns of UTF-8 text without wide characters: bytes that start a character.
size_t Width(const std::string& cell) {
  return static_cast<size_t>(std::count_if(cell.begin(), cell.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

}  // namespace

std::string TextTable::Text() const {
  std::vector<size_t> widths;
  std::vector<bool> numeric;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    numeric.resize(widths.size(), true);
    for (size_t c = 0; c < row.size(); ++c) {
      widths[c] = std::max(widths[c], Width(row[c]));
      if (&row != &rows_.front() && !LooksNumeric(row[c])) numeric[c] = false;
    }
  }
  std::string text;
  for (size_t r = 0; r < rows_.size(); ++r) {
    std::string line;
    for (size_t c = 0; c < rows_[r].size(); ++c) {
      const std::string pad(widths[c] - Width(rows_[r][c]), ' ');
      line += (c == 0 ? "" : "  ") + (numeric[c] ? pad + rows_[r][c] : rows_[r][c] + pad);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
    if (r == 0) {
      size_t total = 0;
      for (const size_t w : widths) total += w + 2;
      text += std::string(total - 2, '-') + "\n";
    }
  }
  return text;
}

std::string TextOf(const ReportTable& table) {
  if (table.rows.empty()) return "";
  TextTable rows(table.header);
  for (const std::vector<std::string>& row : table.rows) rows.Add(row);
  std::string text = table.title + "\n" + rows.Text();
  for (const std::string& note : table.notes) text += "  " + note + "\n";
  return text;
}

}  // namespace longhaul
