#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "netem/topology/toml_tree.h"
#include "planning/simulator/scenario.h"

namespace longhaul::simulator {

// One key of [assume]: its bounds, ends included, what it counts, and where it goes.
struct AssumptionKey {
  std::string_view name;
  double least, most;
  std::string_view unit;
  void (*set)(Factors& factors, double value);
};
std::span<const AssumptionKey> AssumptionKeys();

// A factor that a file gives in place of the model's own: a number (low = mid = high), or a range
// [low, mid, high] that stands for the triangular distribution with its peak at mid.
struct Assumption {
  size_t key;  // index into AssumptionKeys()
  double low, mid, high;
  bool uncertain() const { return low < high; }
  std::string_view name() const { return AssumptionKeys()[key].name; }
  void Set(Factors& factors, double value) const { AssumptionKeys()[key].set(factors, value); }
};

struct Assumptions {
  std::vector<Assumption> factors;  // in the order of the key table
  int64_t seed = 1;                 // of the draws
  bool uncertain() const;
  // "assume q = 0.995", "assume q = 0.99 in [0.98, 0.995]", one line each.
  std::string Text() const;
};

// The table [assume]. InvalidArgument, one line with file and line: an unknown factor, a value out
// of its unit's bounds, a list that is no [low, mid, high], a range upside down.
absl::Status ReadAssumptions(const TomlValue& root, Assumptions* assumptions);

}  // namespace longhaul::simulator
