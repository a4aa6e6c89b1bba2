#include "planning/simulator/published.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "netem/topology/table_reader.h"
#include "planning/simulator/table_columns.h"

namespace longhaul::simulator {
namespace {

constexpr std::string_view kRemark = "(misprint: ";
constexpr size_t kMostDigits = 17;

// "9.52e23": digits, a point, an exponent. What documents print, and no "inf".
bool IsPrintedNumber(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && text.size() <= kMostDigits &&
         text.find_first_not_of("-.0123456789e+") == std::string_view::npos;
}

absl::Status At(const TomlValue& value, std::string_view column, std::string_view what) {
  return absl::InvalidArgumentError(
      fmt::format("{}: 'published.{}' {}", value.where, column, what));
}

std::string_view Trimmed(std::string_view text) {
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

// One string, or a list of them, behind what `values` has already.
absl::Status ReadValues(const std::string& column, const TomlValue& value,
                        std::vector<PublishedValue>& values) {
  const TomlValue::Array one = {value};
  const auto* const list = std::get_if<TomlValue::Array>(&value.value);
  for (const TomlValue& item : list != nullptr ? *list : one) {
    const auto* const text = std::get_if<std::string>(&item.value);
    if (text == nullptr) {
      return At(item, column,
                fmt::format("is {}; want the digits as they are printed, in quotes: \"0.862\"",
                            KindName(item)));
    }
    absl::StatusOr<PublishedValue> parsed = ParsePublished(*text);
    if (!parsed.ok()) return At(item, column, std::string(parsed.status().message()));
    values.push_back(*std::move(parsed));
  }
  return absl::OkStatus();
}

absl::Status ReadPublishedTable(const TomlValue& published, size_t want, std::string_view of,
                                std::map<std::string, std::vector<PublishedValue>>& columns) {
  const auto* const table = std::get_if<TomlValue::Table>(&published.value);
  if (table == nullptr) return At(published, "COLUMN", "is wanted: a table of columns");
  for (const auto& [name, value] : *table) {
    if (FindTableColumn(name) == nullptr) {
      return absl::InvalidArgumentError(
          fmt::format("{}: 'published' has no column '{}'; want one of {}", value.where,
                      Shown(name), TableColumnNames()));
    }
    std::vector<PublishedValue> values;
    if (const absl::Status s = ReadValues(name, value, values); !s.ok()) return s;
    if (values.size() != want) {
      return At(value, name,
                fmt::format("has {} values, and {} {} rows; \"-\" stands where nothing is printed",
                            values.size(), of, want));
    }
    columns[name] = std::move(values);
  }
  return absl::OkStatus();
}

// What each [[scenario]] has of its own, one after the other; "-" where one lacks a column.
absl::Status ReadOfNamed(const TomlValue& root, size_t per_named, PlanningTable& table) {
  const TomlValue* const named = Find(root, "scenario");
  const auto* const elements =
      named == nullptr ? nullptr : std::get_if<TomlValue::Array>(&named->value);
  if (elements == nullptr) return absl::OkStatus();
  const size_t rows = elements->size() * per_named;
  for (size_t i = 0; i < elements->size(); ++i) {
    const TomlValue* const published = Find((*elements)[i], "published");
    if (published == nullptr) continue;
    if (Find(root, "published") != nullptr) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: 'published' stands here and in [published]; give one of the two", published->where));
    }
    std::map<std::string, std::vector<PublishedValue>> columns;
    if (const absl::Status s =
            ReadPublishedTable(*published, per_named, "this scenario has", columns);
        !s.ok()) {
      return s;
    }
    for (auto& [name, values] : columns) {
      std::vector<PublishedValue>& all = table.published[name];
      all.resize(rows);
      std::move(values.begin(), values.end(), all.begin() + static_cast<ptrdiff_t>(i * per_named));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadColumns(const TomlValue& root, PlanningTable& table) {
  TableReader top(root, "");
  top.Allow("columns", &table.columns);
  top.Allow("threshold", &table.threshold);
  if (top.Has("threshold")) top.Within("threshold", table.threshold, 1, 1e40, "FLOP");
  for (const std::string& name : table.columns) {
    if (FindTableColumn(name) == nullptr) {
      top.Fail("columns",
               fmt::format("has '{}'; want some of {}", Shown(name), TableColumnNames()));
    }
    if (name == "times_threshold") {
      top.Check(top.Has("threshold"), "columns", "has 'times_threshold'; say threshold = FLOP too");
    }
  }
  if (top.Has("columns")) top.Check(!table.columns.empty(), "columns", "is an empty list");
  return top.status();
}

}  // namespace

absl::StatusOr<PublishedValue> ParsePublished(std::string_view text) {
  if (text.empty() || text == "-") return PublishedValue{};
  const size_t at = text.find('(');
  PublishedValue value{.printed = std::string(Trimmed(text.substr(0, at))), .misprint = ""};
  if (!IsPrintedNumber(value.printed)) {
    return absl::InvalidArgumentError(
        fmt::format("has '{}', which is no number as a document prints it, such as 9.52e23",
                    Shown(std::string(text))));
  }
  if (at == std::string_view::npos) return value;
  const std::string_view remark = text.substr(at);
  if (!remark.starts_with(kRemark) || !remark.ends_with(')') ||
      remark.size() < kRemark.size() + 2) {
    return absl::InvalidArgumentError(
        fmt::format("has '{}'; a remark is \"(misprint: why)\"", Shown(std::string(text))));
  }
  value.misprint = remark.substr(kRemark.size(), remark.size() - kRemark.size() - 1);
  return value;
}

std::string AsPrinted(double value, std::string_view printed) {
  const size_t exponent = printed.find('e');
  const std::string_view mantissa = printed.substr(0, exponent);
  const size_t point = mantissa.find('.');
  const size_t digits = point == std::string_view::npos ? 0 : mantissa.size() - point - 1;
  if (exponent == std::string_view::npos) return fmt::format("{:.{}f}", value, digits);
  std::string text = fmt::format("{:.{}e}", value, digits);
  if (printed[exponent + 1] == '+') return text;
  // Documents print 9.52e23 and 1e2, C prints 9.52e+23 and 1e+02.
  const size_t sign = text.find("e+");
  if (sign == std::string::npos) return text;
  return text.erase(sign + 1, text[sign + 2] == '0' && printed.size() == exponent + 2 ? 2 : 1);
}

absl::StatusOr<PlanningTable> ReadPlanningTable(const TomlValue& root, size_t rows,
                                                size_t per_named) {
  PlanningTable table;
  if (const absl::Status s = ReadColumns(root, table); !s.ok()) return s;
  if (const TomlValue* const published = Find(root, "published"); published != nullptr) {
    if (const absl::Status s =
            ReadPublishedTable(*published, rows, "the table has", table.published);
        !s.ok()) {
      return s;
    }
  }
  if (const absl::Status s = ReadOfNamed(root, per_named, table); !s.ok()) return s;
  for (const auto& [name, values] : table.published) {
    if (std::find(table.columns.begin(), table.columns.end(), name) == table.columns.end()) {
      const TomlValue* const columns = Find(root, "columns");
      return absl::InvalidArgumentError(
          fmt::format("{}: 'columns' lacks '{}', of which there are published values",
                      columns != nullptr ? columns->where : root.where, name));
    }
  }
  return table;
}

}  // namespace longhaul::simulator
