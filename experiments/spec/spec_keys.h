#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "experiments/spec/spec.h"
#include "experiments/spec/spec_line.h"

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
  bool or_python = false;  // or "python:FILE:CLASS"
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
  kPython,       // of "python:FILE:CLASS" the file; a name is none
  kCheckpoints,  // a folder of them, read when the run begins and never again
  kOutput,       // a folder that the run writes
};

// What a difference in a key means where an arm is compared with its reference.
enum class Change {
  kOther,   // another training: no loss can be booked on crossings
  kBooked,  // stages and boundary codecs, on which a loss is booked
  kOuter,   // how DiLoCo, or data parallel with the same global batch, shares out the work
  kPaired,  // the seed, by which arms are paired: no difference
};

// Where a key changes nothing, as schedule.depth beside "1f1b", and why.
struct Idle {
  bool (*idle)(const RunSpec&) = nullptr;
  std::string_view why = {};
};
// A key that is read beside a [program], too.
struct InProgram {
  bool required;
};

// One key of a run spec. All that is done with keys is a loop over these: reader and bounds, TOML,
// `longhaul spec`, docs/reference/spec-keys.md, differences between arms, idle keys. Its default is
// that of its field in spec.h.
struct SpecKey {
  template <typename T>
  using Get = T* (*)(RunSpec&);
  using Field = std::variant<Get<bool>, Get<int64_t>, Get<double>, Get<std::string>,
                             Get<std::optional<int64_t>>, Get<std::optional<double>>,
                             Get<std::vector<int64_t>>>;

  // `rules`: of those below that have a default, what the key has.
  template <typename... Rules>
  SpecKey(std::string_view table, std::string_view name, Field field, bool required, Domain domain,
          std::string_view unit, std::string_view meaning, Rules... rules)
      : table(table),
        name(name),
        field(field),
        required(required),
        domain(std::move(domain)),
        unit(unit),
        meaning(meaning) {
    (Add(rules), ...);
  }

  std::string_view table;  // "": the top level
  std::string_view name;
  Field field;
  bool required;
  Domain domain;
  std::string_view unit;     // as messages say it; may be empty
  std::string_view meaning;  // for users: one sentence or noun phrase
  Names names = Names::kNothing;
  Change change = Change::kOther;
  Idle idle = {};
  std::optional<InProgram> in_program = {};

  std::string path() const;  // "train.lr"

 private:
  void Add(Names rule) { names = rule; }
  void Add(Change rule) { change = rule; }
  void Add(Idle rule) { idle = rule; }
  void Add(InProgram rule) { in_program = rule; }
};

// All keys, table by table, in the order in which a resolved spec prints them.
std::span<const SpecKey> SpecKeys();
std::vector<std::string_view> SpecTables();  // without the top level
// A key's value as TOML has it; "": not given.
std::string TextOf(const SpecKey& key, const RunSpec& spec);

class TableReader;
// Reads one key of a table into its field, within its bounds.
void ReadKey(TableReader& reader, const SpecKey& key, bool required, const SpecNames& names,
             RunSpec& spec);

// Every key that a spec gives, defaults included, in the order of ToToml.
SpecLines LinesOf(const RunSpec& spec);
std::string TomlOf(const SpecLines& lines);

// What a product of keys may be at most, whatever the keys are by themselves.
inline constexpr int64_t kMaxRanks = 1024;                    // S x G
inline constexpr int64_t kMaxActions = 1 << 20;               // S x M of a schedule
inline constexpr int64_t kMaxTokens = 1'000'000'000'000'000;  // of a run, all groups together

}  // namespace longhaul
