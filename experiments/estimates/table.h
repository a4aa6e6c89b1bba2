#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace longhaul {

// What the engine's own commands print as a table. What is found in a record is Python's to tabulate.

// How much a command prints of what it found: a screenful, or everything.
enum class Detail { kScreen, kAll };

// Words in lines of at most `columns`; later lines begin with `indent`. Ends with a newline.
std::string Wrapped(std::string_view text, size_t columns = 100, std::string_view indent = "");

struct Cell {
  Cell(std::string words) : text(std::move(words)) {}  // NOLINT: implicit
  Cell(std::string_view words) : text(words) {}        // NOLINT
  Cell(const char* words) : text(words) {}             // NOLINT
  template <std::integral T>
  Cell(T whole) : text(std::to_string(whole)) {}  // NOLINT
  Cell(double number, const char* form = "{}");   // NOLINT
  template <typename T, typename... How>
  Cell(const std::optional<T>& number, How... how)  // NOLINT
      : Cell(number ? Cell(*number, how...) : Cell("-")) {}

  std::string text;
};

struct Table {
  std::vector<std::string> columns = {};  // heads
  std::vector<std::vector<Cell>> rows = {};

  void Add(std::vector<Cell> row) { rows.push_back(std::move(row)); }
};

// Heads as "rank | node | wall s".
std::vector<std::string> ColumnsOf(std::string_view text);

// Columns as wide as their widest cell, numbers to the right; ends with a newline.
std::string GridText(const Table& table);

}  // namespace longhaul
