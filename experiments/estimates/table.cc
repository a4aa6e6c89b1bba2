#include "experiments/estimates/table.h"

#include <algorithm>

#include <fmt/format.h>

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

Cell::Cell(double number, const char* form) : text(fmt::format(fmt::runtime(form), number)) {}

std::vector<std::string> ColumnsOf(std::string_view text) {
  constexpr std::string_view kBetween = " | ";
  std::vector<std::string> columns;
  for (size_t end = 0; end != text.npos;
       text.remove_prefix(end == text.npos ? 0 : end + kBetween.size())) {
    end = text.find(kBetween);
    columns.emplace_back(text.substr(0, end));
  }
  return columns;
}

std::string GridText(const Table& table) {
  std::vector<std::vector<std::string>> rows = {table.columns};
  for (const std::vector<Cell>& row : table.rows) {
    std::vector<std::string>& cells = rows.emplace_back();
    for (const Cell& cell : row) cells.push_back(cell.text);
  }
  std::vector<size_t> widths;
  std::vector<bool> numeric;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    numeric.resize(widths.size(), true);
    for (size_t c = 0; c < row.size(); ++c) {
      widths[c] = std::max(widths[c], Width(row[c]));
      if (&row != &rows.front() && !LooksNumeric(row[c])) numeric[c] = false;
    }
  }
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (size_t c = 0; c < rows[r].size(); ++c) {
      const std::string pad(widths[c] - Width(rows[r][c]), ' ');
      line += (c == 0 ? "" : "  ") + (numeric[c] ? pad + rows[r][c] : rows[r][c] + pad);
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

std::string Wrapped(std::string_view text, size_t columns, std::string_view indent) {
  std::string out, line;
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find(' ', at);
    if (end == std::string_view::npos) end = text.size();
    const std::string_view word = text.substr(at, end - at);
    if (!line.empty() && line.size() + 1 + word.size() > columns) {
      out += line + "\n";
      line = indent;
      line += word;
    } else {
      if (at > 0) line += ' ';
      line += word;
    }
    at = end + 1;
  }
  return out + line + "\n";
}

}  // namespace longhaul
