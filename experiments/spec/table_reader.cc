#include "experiments/spec/table_reader.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace longhaul {

std::string RangeText(int64_t least, int64_t most) {
  if (most == std::numeric_limits<int64_t>::max()) return fmt::format("{} or more", least);
  return fmt::format("{} to {}", least, most);
}

std::string RangeText(double least, double most) { return fmt::format("{} to {}", least, most); }

TableReader::TableReader(const TomlValue& root, std::string path)
    : TableReader(path.empty() ? &root : Find(root, path), path, root.where) {}

TableReader TableReader::Of(const TomlValue& table, std::string label) {
  return TableReader(&table, std::move(label), table.where);
}

TableReader::TableReader(const TomlValue* found, std::string path, std::string where)
    : path_(std::move(path)), where_(std::move(where)) {
  if (found == nullptr) return;
  where_ = found->where;
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

void TableReader::Fail(const std::string& key, std::string_view message) {
  if (!error_.ok()) return;
  const std::string_view gap = message.starts_with(':') ? "" : " ";
  error_ =
      absl::InvalidArgumentError(fmt::format("{}: '{}'{}{}", Where(key), Full(key), gap, message));
}

void TableReader::WrongType(const std::string& key, const TomlValue& value, std::string_view want) {
  Fail(key, fmt::format("is {}, want {}", KindName(value), want));
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

const TomlValue* TableReader::Lookup(const std::string& key, bool required) {
  known_.insert(key);
  if (Has(key)) return &table_->at(key);
  if (required) Fail(key, "is missing");
  return nullptr;
}

bool TableReader::Read(const std::string& key, bool* field, bool required) {
  const TomlValue* value = Lookup(key, required);
  if (value == nullptr) return false;
  const bool* read = std::get_if<bool>(&value->value);
  if (read == nullptr) {
    WrongType(key, *value, "true or false");
    return false;
  }
  *field = *read;
  return true;
}

bool TableReader::Read(const std::string& key, int64_t* field, bool required) {
  const TomlValue* value = Lookup(key, required);
  if (value == nullptr) return false;
  const int64_t* read = std::get_if<int64_t>(&value->value);
  if (read == nullptr) return WrongType(key, *value, "an integer"), false;
  *field = *read;
  return true;
}

bool TableReader::Read(const std::string& key, double* field, bool required) {
  const TomlValue* value = Lookup(key, required);
  if (value == nullptr) return false;
  if (const int64_t* whole = std::get_if<int64_t>(&value->value)) {
    *field = static_cast<double>(*whole);
    return true;
  }
  const double* read = std::get_if<double>(&value->value);
  if (read == nullptr) return WrongType(key, *value, "a number"), false;
  *field = *read;
  return true;
}

bool TableReader::Read(const std::string& key, std::string* field, bool required) {
  const TomlValue* value = Lookup(key, required);
  if (value == nullptr) return false;
  const std::string* read = std::get_if<std::string>(&value->value);
  if (read == nullptr) return WrongType(key, *value, "a string"), false;
  *field = *read;
  return true;
}

bool TableReader::Read(const std::string& key, std::vector<int64_t>* field, bool required) {
  const TomlValue* value = Lookup(key, required);
  if (value == nullptr) return false;
  const TomlValue::Array* items = std::get_if<TomlValue::Array>(&value->value);
  if (items == nullptr) return WrongType(key, *value, "an array of integers"), false;
  field->clear();
  for (const TomlValue& item : *items) {
    const int64_t* read = std::get_if<int64_t>(&item.value);
    if (read == nullptr) return WrongType(key, item, "an array of integers"), false;
    field->push_back(*read);
  }
  return true;
}

bool TableReader::Read(const std::string& key, std::vector<double>* field, bool required) {
  const TomlValue* value = Lookup(key, required);
  if (value == nullptr) return false;
  const TomlValue::Array* items = std::get_if<TomlValue::Array>(&value->value);
  if (items == nullptr) return WrongType(key, *value, "an array of numbers"), false;
  field->clear();
  for (const TomlValue& item : *items) {
    if (const int64_t* whole = std::get_if<int64_t>(&item.value)) {
      field->push_back(static_cast<double>(*whole));
    } else if (const double* read = std::get_if<double>(&item.value)) {
      field->push_back(*read);
    } else {
      return WrongType(key, item, "an array of numbers"), false;
    }
  }
  return true;
}

bool TableReader::Read(const std::string& key, std::vector<std::string>* field, bool required) {
  const TomlValue* value = Lookup(key, required);
  if (value == nullptr) return false;
  const TomlValue::Array* items = std::get_if<TomlValue::Array>(&value->value);
  if (items == nullptr) return WrongType(key, *value, "an array of strings"), false;
  field->clear();
  for (const TomlValue& item : *items) {
    const std::string* read = std::get_if<std::string>(&item.value);
    if (read == nullptr) return WrongType(key, item, "an array of strings"), false;
    field->push_back(*read);
  }
  return true;
}

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
