#include "experiments/estimates/table.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

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

// What people see of a table, its heads first.
std::vector<std::vector<std::string>> ShownRows(const Table& table) {
  std::vector<std::vector<std::string>> rows(1);
  for (const Column& column : table.columns) {
    if (column.head) rows[0].push_back(*column.head);
    if (column.head) std::replace(rows[0].back().begin(), rows[0].back().end(), '\n', ' ');
  }
  for (const std::vector<Cell>& row : table.rows) {
    std::vector<std::string>& cells = rows.emplace_back();
    for (size_t c = 0; c < row.size(); ++c) {
      if (c >= table.columns.size() || table.columns[c].head) cells.push_back(row[c].text);
    }
  }
  return rows;
}

std::vector<std::string> Split(std::string_view text, std::string_view by) {
  std::vector<std::string> parts;
  for (size_t end = 0; end != text.npos;
       text.remove_prefix(end == text.npos ? 0 : end + by.size())) {
    end = text.find(by);
    parts.emplace_back(text.substr(0, end));
  }
  return parts;
}

std::string Number(double x) { return fmt::format("{}", x); }

void AppendCsv(const Cell::Value& value, size_t names, std::vector<std::string>& row) {
  const size_t end = row.size() + names;
  if (const auto* m = std::get_if<Measured>(&value)) {
    row.push_back(Number(m->value));
    if (names == 3 && m->interval && m->bound != Bound::kUpper) {
      row.insert(row.end(), {Number(m->interval->low), Number(m->interval->high)});
    }
  } else if (const auto* words = std::get_if<std::string>(&value)) {
    row.push_back(*words);
  } else if (const auto* flag = std::get_if<bool>(&value)) {
    row.emplace_back(*flag ? "1" : "0");
  } else if (const auto* whole = std::get_if<int64_t>(&value)) {
    row.push_back(fmt::format("{}", *whole));
  } else if (const auto* number = std::get_if<double>(&value)) {
    row.push_back(Number(*number));
  } else if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
    row.push_back(fmt::format("{}", fmt::join(*list, " ")));
  }
  row.resize(end);
}

}  // namespace

std::string WithInterval(const Measured& x, int digits) {
  if (x.bound == Bound::kUpper) {
    return fmt::format("<= {:.{}f}{}", x.value, digits, x.interval ? "" : " [-]");
  }
  if (!x.interval) return fmt::format("{:.{}f} [-]", x.value, digits);
  return fmt::format("{:.{}f} [{}{:.{}f}, {:.{}f}]", x.value, digits,
                     x.bound == Bound::kLowEnd ? "<= " : "", x.interval->low, digits,
                     x.interval->high, digits);
}

Cell::Cell(double number, const char* form)
    : text(fmt::format(fmt::runtime(form), number)), value(number) {}

Cell::Cell(const Measured& number, int digits)
    : text(WithInterval(number, digits)), value(number) {}

Cell Cell::Badge(std::string_view words, Tone tone) {
  Cell cell(words);
  cell.tone = tone;
  return cell;
}

std::vector<Column> ColumnsOf(std::string_view text) {
  std::vector<Column> columns;
  for (const std::string& part : Split(text, " | ")) {
    const size_t colon = std::min(part.rfind(':'), part.size());
    Column column(part.substr(0, colon));
    if (column.head == "-") column.head.reset();
    if (colon < part.size()) column.keys = Split(part.substr(colon + 1), ",");
    if (!column.keys.empty() && column.keys[0].ends_with("[]")) {
      const std::string key = column.keys[0].substr(0, column.keys[0].size() - 2);
      column.keys = {key, key + "_low", key + "_high"};
      column.one_object = true;
    }
    columns.push_back(std::move(column));
  }
  return columns;
}

std::vector<Column> ForPrograms(std::string_view keys) {
  std::vector<Column> columns;
  for (const std::string& part : Split(keys, " | ")) {
    columns.emplace_back(std::nullopt, Split(part, ","));
  }
  return columns;
}

std::string GridText(const Table& table) {
  const std::vector<std::vector<std::string>> rows = ShownRows(table);
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

std::string TextOf(const Table& table) {
  if (table.rows.empty()) return "";
  std::string text = table.title + "\n" + GridText(table);
  for (const std::string& note : table.notes) text += "  " + note + "\n";
  return text;
}

CsvRows CsvRowsOf(const Table& table) {
  CsvRows rows(1);
  for (const Column& column : table.columns) {
    rows[0].insert(rows[0].end(), column.keys.begin(), column.keys.end());
  }
  for (const std::vector<Cell>& row : table.rows) {
    std::vector<std::string>& cells = rows.emplace_back();
    for (size_t c = 0; c < row.size() && c < table.columns.size(); ++c) {
      if (const size_t keys = table.columns[c].keys.size()) AppendCsv(row[c].value, keys, cells);
    }
    cells.resize(rows[0].size());
  }
  return rows;
}

std::string Csv(const CsvRows& rows) {
  std::string out;
  for (const auto& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) {
      if (c > 0) out += ',';
      if (row[c].find_first_of(",\"\r\n") == std::string::npos) {
        out += row[c];
        continue;
      }
      out += '"';
      for (const char ch : row[c]) out += ch == '"' ? std::string("\"\"") : std::string(1, ch);
      out += '"';
    }
    out += '\n';
  }
  return out;
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
