#include "netem/topology/table_reader.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace longhaul {
namespace {

constexpr std::string_view Wanted(const bool*) { return "true or false"; }
constexpr std::string_view Wanted(const int64_t*) { return "an integer"; }
constexpr std::string_view Wanted(const double*) { return "a number"; }
constexpr std::string_view Wanted(const std::string*) { return "a string"; }
constexpr std::string_view Wanted(const std::vector<int64_t>*) { return "an array of integers"; }
constexpr std::string_view Wanted(const std::vector<double>*) { return "an array of numbers"; }
constexpr std::string_view Wanted(const std::vector<std::string>*) { return "an array of strings"; }

// Copies the value into the field; the value, or the element, whose type does not fit; else null.
template <typename T>
const TomlValue* Take(const TomlValue& value, T* field) {
  if constexpr (std::is_same_v<T, double>) {
    if (const int64_t* whole = std::get_if<int64_t>(&value.value)) {
      *field = static_cast<double>(*whole);
      return nullptr;
    }
  }
  const T* read = std::get_if<T>(&value.value);
  if (read == nullptr) return &value;
  *field = *read;
  return nullptr;
}
template <typename T>
const TomlValue* Take(const TomlValue& value, std::vector<T>* field) {
  const TomlValue::Array* items = std::get_if<TomlValue::Array>(&value.value);
  if (items == nullptr) return &value;
  field->clear();
  for (const TomlValue& item : *items) {
    if (const TomlValue* wrong = Take(item, &field->emplace_back())) return wrong;
  }
  return nullptr;
}

}  // namespace

std::string RangeText(int64_t least, int64_t most) {
  if (most == std::numeric_limits<int64_t>::max()) return fmt::format("{} or more", least);
  return fmt::format("{} to {}", least, most);
}

std::string RangeText(double least, double most) { return fmt::format("{} to {}", least, most); }

TableReader::TableReader(const TomlValue& root, std::string path)
    : TableReader(path.empty() ? &root : Find(root, path), path, root) {}

TableReader TableReader::Of(const TomlValue& table, std::string label) {
  return TableReader(&table, std::move(label), table);
}

TableReader::TableReader(const TomlValue* found, std::string path, const TomlValue& at)
    : path_(std::move(path)), where_(at.where), line_(at.line) {
  if (found == nullptr) return;
  where_ = found->where;
  line_ = found->line;
  table_ = std::get_if<TomlValue::Table>(&found->value);
  if (table_ == nullptr) {
    error_ = absl::InvalidArgumentError(
        fmt::format("{}: '{}' is {}, want a table", where_, path_, KindName(*found)));
  }
}

bool TableReader::Has(const std::string& key) const {
  return table_ != nullptr && table_->contains(key);
}

std::string TableReader::Where(const std::string& key) const {
  return Has(key) ? table_->at(key).where : where_;
}

int TableReader::LineOf(const std::string& key) const {
  return Has(key) ? table_->at(key).line : line_;
}

const TomlValue* TableReader::Value(const std::string& key) {
  known_.insert(key);
  return Has(key) ? &table_->at(key) : nullptr;
}

const TomlValue* TableReader::Table(const std::string& key) {
  const TomlValue* value = Value(key);
  if (value == nullptr || std::holds_alternative<TomlValue::Table>(value->value)) return value;
  Fail(key, fmt::format("is no table: write [{}]", key));
  return nullptr;
}

std::span<const TomlValue> TableReader::Tables(const std::string& key) {
  const TomlValue* value = Value(key);
  if (value == nullptr) return {};
  const auto* list = std::get_if<TomlValue::Array>(&value->value);
  const auto is_table = [](const TomlValue& entry) {
    return std::holds_alternative<TomlValue::Table>(entry.value);
  };
  if (list != nullptr && std::all_of(list->begin(), list->end(), is_table)) return *list;
  Fail(key, fmt::format("is no list of tables: write [[{}]]", key));
  return {};
}

void TableReader::Fail(const std::string& key, std::string_view message) {
  const std::string_view gap = message.starts_with(':') ? "" : " ";
  FailAt(key, fmt::format("'{}'{}{}", Full(key), gap, message));
}

void TableReader::FailAt(const std::string& key, std::string_view message) {
  if (error_.ok()) error_ = absl::InvalidArgumentError(fmt::format("{}: {}", Where(key), message));
}

void TableReader::Within(const std::string& key, int64_t value, int64_t least, int64_t most,
                         std::string_view unit) {
  if (value >= least && value <= most) return;
  Fail(key, fmt::format("is {}; want {}{}{}", value, RangeText(least, most),
                        unit.empty() ? "" : " ", unit));
}

void TableReader::Within(const std::string& key, double value, double least, double most,
                         std::string_view unit) {
  if (value >= least && value <= most) return;
  Fail(key, fmt::format("is {}; want {}{}{}", value, RangeText(least, most),
                        unit.empty() ? "" : " ", unit));
}

void TableReader::Line(const std::string& key, const std::string& value, size_t most) {
  const bool printable = std::none_of(value.begin(), value.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  if (!value.empty() && value.size() <= most && printable) return;
  Fail(key, fmt::format("is '{}' of {} bytes; want 1 to {} without control characters",
                        Shown(value), value.size(), most));
}

void TableReader::OneOf(const std::string& key, const std::string& value,
                        const std::vector<std::string_view>& known) {
  for (const std::string_view name : known) {
    if (value == name) return;
  }
  Fail(key, fmt::format("is '{}'; known: {}", Shown(value), fmt::join(known, ", ")));
}

void TableReader::Known(const std::string& key, const std::string& name,
                        const std::function<absl::Status(std::string_view)>& known) {
  constexpr size_t kLongest = 128;
  Line(key, name, kLongest);
  if (!error_.ok()) return;
  const absl::Status status = known(name);
  if (!status.ok()) Fail(key, ": " + std::string(status.message()));
}

template <typename T>
bool TableReader::Read(const std::string& key, T* field, bool required) {
  const TomlValue* value = Value(key);
  if (value == nullptr) {
    if (required) Fail(key, "is missing");
    return false;
  }
  const TomlValue* wrong = Take(*value, field);
  if (wrong == nullptr) return true;
  Fail(key, fmt::format("is {}, want {}", KindName(*wrong), Wanted(field)));
  return false;
}
template bool TableReader::Read(const std::string&, bool*, bool);
template bool TableReader::Read(const std::string&, int64_t*, bool);
template bool TableReader::Read(const std::string&, double*, bool);
template bool TableReader::Read(const std::string&, std::string*, bool);
template bool TableReader::Read(const std::string&, std::vector<int64_t>*, bool);
template bool TableReader::Read(const std::string&, std::vector<double>*, bool);
template bool TableReader::Read(const std::string&, std::vector<std::string>*, bool);

absl::Status TableReader::Finish() {
  if (table_ != nullptr) {
    for (const auto& [key, value] : *table_) {
      if (known_.contains(key)) continue;
      return absl::InvalidArgumentError(fmt::format("{}: unknown key '{}'; known: {}", value.where,
                                                    Shown(Full(key)), fmt::join(known_, ", ")));
    }
  }
  return error_;
}

}  // namespace longhaul
