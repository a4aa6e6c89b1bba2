#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "netem/topology/toml_tree.h"

namespace longhaul {

// "1 to 64", "0 or more": a range as messages and the docs give it, ends included.
std::string RangeText(int64_t least, int64_t most);
std::string RangeText(double least, double most);

// Reads the keys of one table into fields and remembers which keys it was asked for, so that
// Finish() can name the unknown ones. The first error wins, but an unknown key beats a missing one:
// a typo is both. Borrows the tree.
class TableReader {
 public:
  // `path` is "" for the root. A table that is not there reads as empty.
  TableReader(const TomlValue& root, std::string path);
  // Reads `table` itself, an element of an array; `label` stands before its keys in messages.
  static TableReader Of(const TomlValue& table, std::string label);

  bool present() const { return table_ != nullptr; }
  bool Has(const std::string& key) const;
  // "demo.toml:12" of the key, of the table where the key is missing, or of the file.
  std::string Where(const std::string& key) const;
  // The line alone; 0: it stands in no file.
  int LineOf(const std::string& key) const;

  template <typename T>
  void Require(const std::string& key, T* field) {
    Read(key, field, /*required=*/true);
  }
  template <typename T>
  void Allow(const std::string& key, T* field) {
    Read(key, field, /*required=*/false);
  }
  template <typename T>
  void Allow(const std::string& key, std::optional<T>* field) {
    if (std::optional<T> read = Get<T>(key)) *field = std::move(read);
  }
  // The field of a key that may be there.
  template <typename T>
  std::optional<T> Get(const std::string& key) {
    T read{};
    if (!Read(key, &read, /*required=*/false)) return std::nullopt;
    return read;
  }
  // The value as it stands, of any type; nullptr: there is none.
  const TomlValue* Value(const std::string& key);
  // [key], or nullptr; the tables of [[key]].
  const TomlValue* Table(const std::string& key);
  std::span<const TomlValue> Tables(const std::string& key);
  // A key that someone else reads: only known, not looked at.
  void Skip(const std::string& key) { known_.insert(key); }

  // Records "where: 'path.key' message" unless an error stands already.
  void Fail(const std::string& key, std::string_view message);
  // Records "where: message" instead; "": of the table.
  void FailAt(const std::string& key, std::string_view message);
  // Fails unless `condition` holds.
  void Check(bool condition, const std::string& key, std::string_view message) {
    if (!condition) Fail(key, message);
  }
  // Fails with the value and what is allowed unless it lies in least..most, ends included; NaN
  // lies nowhere. `unit` stands behind the range.
  void Within(const std::string& key, int64_t value, int64_t least, int64_t most,
              std::string_view unit = "");
  void Within(const std::string& key, double value, double least, double most,
              std::string_view unit = "");
  // Fails unless `value` has 1 to `most` bytes and no control character.
  void Line(const std::string& key, const std::string& value, size_t most);
  void OneOf(const std::string& key, const std::string& value,
             const std::vector<std::string_view>& known);
  // Fails unless a catalogue knows the name; its own message lists the known ones.
  void Known(const std::string& key, const std::string& name,
             const std::function<absl::Status(std::string_view)>& known);

  // The first error so far; Finish() also tells unknown keys.
  const absl::Status& status() const { return error_; }
  absl::Status Finish();

 private:
  TableReader(const TomlValue* found, std::string path, const TomlValue& at);
  // True where the key is there and of the field's type: bool, int64_t, double, std::string, or an
  // array of one of the last three. A whole number will do for a double.
  template <typename T>
  bool Read(const std::string& key, T* field, bool required);
  std::string Full(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

  std::string path_;
  const TomlValue::Table* table_ = nullptr;
  std::string where_;
  int line_ = 0;
  std::set<std::string> known_;
  absl::Status error_;
};

}  // namespace longhaul
