#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "experiments/estimates/interval.h"

namespace longhaul {

// What was found, written once. Renderers: TextOf for a terminal, CsvRowsOf and Csv for files,
// JsonRows (table_json.h), HtmlOf (report/html.h) for a page.

// "0.9931 [0.9902, 0.9960]"; "0.9931 [-]" without an interval; "<= 0.9931" for a bound, "<= 0.9931
// [-]" where that bound has no interval behind it; "0.9931 [<= 0.9902, 0.9960]" for a cut low end.
std::string WithInterval(const Measured& x, int digits);

// How much a command prints of what it found: a screenful, or everything.
enum class Detail { kScreen, kAll };

// Words in lines of at most `columns`; later lines begin with `indent`. Ends with a newline.
std::string Wrapped(std::string_view text, size_t columns = 100, std::string_view indent = "");

// A word's colour on a page.
enum class Tone { kGood, kBad, kOpen, kPlain };

// One place of a table: what people read, and the value that programs get.
struct Cell {
  using Value = std::variant<std::monostate, std::string, bool, int64_t, double, Measured,
                             std::vector<int64_t>>;

  Cell(std::string words) : text(words), value(std::move(words)) {}  // NOLINT: implicit
  Cell(std::string_view words) : Cell(std::string(words)) {}         // NOLINT
  Cell(const char* words) : Cell(std::string(words)) {}              // NOLINT
  template <std::integral T>
  Cell(T whole) : text(std::to_string(whole)), value(ValueOf(whole)) {}  // NOLINT
  Cell(double number, const char* form = "{}");                          // NOLINT
  Cell(const Measured& number, int digits = 4);                          // NOLINT
  template <typename T, typename... How>
  Cell(const std::optional<T>& number, How... how)  // NOLINT
      : Cell(number ? Cell(*number, how...) : None()) {}

  // No value: empty in a CSV, null in JSON; people read `why`.
  static Cell None(std::string why = "-") { return {std::move(why), std::monostate()}; }
  // People read `words` in place of the value's own.
  static Cell Shown(std::string words, Value value) { return {std::move(words), std::move(value)}; }
  // In a coloured frame on a page.
  static Cell Badge(std::string_view words, Tone tone);

  std::string text;
  Value value;
  std::optional<Tone> tone = std::nullopt;

 private:
  Cell(std::string words, Value of) : text(std::move(words)), value(std::move(of)) {}
  template <std::integral T>
  static Value ValueOf(T whole) {
    if constexpr (std::same_as<T, bool>) return whole;
    return static_cast<int64_t>(whole);
  }
};

// `head` for people; none: only programs get it. `keys` for programs, a CSV's columns and JSON's
// members: one, or three of a value and its interval's ends; none: only people get it.
struct Column {
  Column(std::string head) : head(std::move(head)) {}  // NOLINT: implicit
  Column(const char* head) : head(head) {}             // NOLINT
  Column(std::optional<std::string> head, std::vector<std::string> keys)
      : head(std::move(head)), keys(std::move(keys)) {}

  std::optional<std::string> head;
  std::vector<std::string> keys = {};
  bool one_object = false;  // in JSON one member has value, ends, level and method
};

// Columns as "HEAD:KEY | HEAD | -:KEY | step, s:step_s,step_low_s,step_high_s | loss:loss[]": with
// both; for people alone; for programs alone; with an interval's ends; the same as loss, loss_low
// and loss_high in a CSV and one object in JSON.
std::vector<Column> ColumnsOf(std::string_view text);
std::vector<Column> ForPrograms(std::string_view keys);  // "arm | role | q,q_low,q_high"

struct Table {
  std::string title = {};
  std::vector<Column> columns = {};
  std::vector<std::vector<Cell>> rows = {};
  std::vector<std::string> notes = {};  // how to read it; a line each

  void Add(std::vector<Cell> row) { rows.push_back(std::move(row)); }
  void AddColumns(const std::vector<Column>& more) {
    columns.insert(columns.end(), more.begin(), more.end());
  }
};

// Columns as wide as their widest cell, numbers to the right; ends with a newline.
std::string GridText(const Table& table);
// The title, the grid, the notes; "" for a table without rows.
std::string TextOf(const Table& table);

// The first row holds the keys; numbers at full precision, of a flag 1 or 0, a list's items behind
// blanks. The ends of an upper bound's interval are left out: it begins nowhere known.
using CsvRows = std::vector<std::vector<std::string>>;
CsvRows CsvRowsOf(const Table& table);
std::string Csv(const CsvRows& rows);  // RFC 4180

}  // namespace longhaul
