#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longhaul {

// What a TOML file may be at most. A parser of TOML, and whatever walks its tree, goes one call
// deeper for each part of a key and each bracket: these bound the stack before they start.
inline constexpr size_t kMaxTomlBytes = 256 * 1024;  // a spec; callers say it of other files
inline constexpr int kMaxKeyParts = 8;               // of one dotted key or table header
inline constexpr int kMaxBracketDepth = 16;          // arrays and inline tables inside each other

// One pass over the text, before it is parsed. InvalidArgument with `origin` and the line: too
// long, a key of too many parts, brackets too deep.
absl::Status CheckTomlLimits(std::string_view text, std::string_view origin,
                             size_t most_bytes = kMaxTomlBytes);

// A parsed TOML value and the place it came from. The only door to toml++: everything else sees
// these plain values. Copyable; an arm of a campaign is a copy of the base tree with some leaves
// replaced.
struct TomlValue {
  using Table = std::map<std::string, TomlValue>;
  using Array = std::vector<TomlValue>;
  std::variant<Table, Array, std::string, int64_t, double, bool> value;
  std::string where;  // "demo.toml:12", or the override's own text: "--set a.b=c"
  int line = 0;       // 12; of an override and of a whole file 0
};

// InvalidArgument "demo.toml:3: ..." on a syntax error or a text beyond the limits above. Dates and
// times are refused: no key of ours takes one. `origin` is what stands before the line number in
// messages.
absl::StatusOr<TomlValue> ParseToml(std::string_view text, std::string_view origin,
                                    size_t most_bytes = kMaxTomlBytes);

// ParseToml of a file, then `sets` in order. Errors also as ReadTextFile.
absl::StatusOr<TomlValue> ReadTomlFile(const std::string& path,
                                       const std::vector<std::string>& sets = {});

// "a.b=c": sets the leaf a.b of `root`, making tables on the way. c is read as TOML; what is not
// TOML is a string, so codec=int4-b64-h64 needs no quotes. InvalidArgument: no '=', empty key, a
// key of too many parts, or a path through something that is no table.
absl::Status SetByPath(TomlValue& root, std::string_view assignment);
absl::Status SetByPath(TomlValue& root, std::string_view path, TomlValue leaf);

// Lays `over` on `base`: tables are merged, all else is replaced.
void Merge(TomlValue& base, const TomlValue& over);

// The value at "a.b", or nullptr; the same where it is of this kind.
const TomlValue* Find(const TomlValue& root, std::string_view path);
template <typename T>
const T* FindAs(const TomlValue& root, std::string_view path) {
  const TomlValue* found = Find(root, path);
  return found == nullptr ? nullptr : std::get_if<T>(&found->value);
}

// Removes the leaf at "a.b" if it is there.
void Erase(TomlValue& root, std::string_view path);

// Text of a user as a message quotes it: one line, at most `most` bytes, its end cut by "...".
std::string Shown(std::string_view text, size_t most = 80);

// "a table", "a string", "an integer", ...: for messages.
std::string_view KindName(const TomlValue& value);

// A quoted TOML string; a float in the shortest form that reads back to the same bits.
std::string TomlQuote(std::string_view text);
std::string TomlNumber(double value);

}  // namespace longhaul
