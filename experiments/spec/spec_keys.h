#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "experiments/spec/spec.h"

namespace longhaul {

// What the value of a key may be; both ends of a range are allowed.
struct Flag {};
struct Whole {
  int64_t least, most;
};
struct Wholes {  // a list of them
  int64_t least, most;
  size_t most_values;
};
struct Real {
  double least, most;
};
struct Line {  // text without control characters
  size_t most_bytes;
};
struct OneOf {
  std::vector<std::string_view> names;
};
struct Known {  // a name of a catalogue
  std::function<absl::Status(std::string_view)> SpecNames::*names;
};
using Domain = std::variant<Flag, Whole, Wholes, Real, Line, OneOf, Known>;

// What the value of a key names that lies outside of the spec. The contents of files belong to a
// run's identity as much as the spec does (train/spec_files.h finds and hashes them by this).
enum class Names {
  kNothing,
  kCorpus,       // files of tokens or text, patterns, a folder of headers
  kWeights,      // a safetensors file, or an index with the files beside it
  kLinks,        // a topology file with its matrices and traces; a profile's name is no file
  kProgram,      // a schedule's CSV
  kCheckpoints,  // a folder of them, read when the run begins and never again
  kOutput,       // a folder that the run writes
};

// One key of a run spec: the reader, its bounds, the printer and the table of `longhaul spec`
// follow from it. What it means stands at its field in spec.h, and there is its default.
struct SpecKey {
  std::string_view table;  // "": the top level
  std::string_view name;
  bool required;
  Domain domain;
  std::string_view unit;  // as messages say it; may be empty
  template <typename T>
  using Get = T* (*)(RunSpec&);
  std::variant<Get<bool>, Get<int64_t>, Get<double>, Get<std::string>, Get<std::optional<int64_t>>,
               Get<std::optional<double>>, Get<std::vector<int64_t>>>
      field;
  Names names = Names::kNothing;

  std::string path() const;  // "train.lr"
};

// All keys, table by table, in the order in which a resolved spec prints them.
std::span<const SpecKey> SpecKeys();
std::vector<std::string_view> SpecTables();  // without the top level
// A key's value as TOML has it; "": not given.
std::string TextOf(const SpecKey& key, const RunSpec& spec);

// What a product of keys may be at most, whatever the keys are by themselves.
inline constexpr int64_t kMaxRanks = 1024;                    // S x G
inline constexpr int64_t kMaxActions = 1 << 20;               // S x M of a schedule
inline constexpr int64_t kMaxTokens = 1'000'000'000'000'000;  // of a run, all groups together

}  // namespace longhaul
