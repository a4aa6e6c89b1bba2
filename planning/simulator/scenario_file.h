#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "netem/topology/toml_tree.h"
#include "planning/simulator/assumptions.h"
#include "planning/simulator/published.h"
#include "planning/simulator/scenario_keys.h"
#include "planning/simulator/simulate.h"

namespace longhaul::simulator {

// Most scenarios that one file may ask for: the product of its lists.
inline constexpr size_t kMostScenarios = 1'000'000;
inline constexpr size_t kMostUncertain = 1000;  // with ranges: 10,000 draws each
inline constexpr int64_t kMostSearchedNodes = 1'000'000;

inline constexpr size_t kMostNamed = 1000;        // elements of [[scenario]]
inline constexpr size_t kMostTableRows = 10'000;  // where the file chooses columns

// A key that holds a list: the scenarios take each of its values. The elements of [[scenario]] are
// an axis too, the first, with the key "scenario": its values are indices, its labels their names.
struct Axis {
  std::string key;  // "network.nodes"
  std::vector<double> values;
  std::vector<std::string> labels;                    // as the file says them
  void (*set)(Draft& draft, double value) = nullptr;  // nullptr: of "scenario", which is a draft
};

// [search]: the fewest nodes with target >= at_least, for each of at_least.
struct Search {
  Target target = Target::kLocal;
  std::string target_name = "c_local";
  std::vector<double> at_least;  // FLOP
  int64_t most_nodes = 100'000;
};

// A scenario file: a profile, what differs from it, lists as axes, a search if it asks for one.
struct ScenarioFile {
  std::string title;
  ProfileName profile = ProfileName::kGovernance;
  Draft draft;
  std::vector<Draft> named;  // of each [[scenario]], in place of `draft`; empty: there is none
  std::vector<Axis> axes;    // "scenario" if there are any, then in the order of the key table
  std::optional<Search> search;
  Assumptions assumptions;  // every scenario has their middles
  PlanningTable table;      // what the file chooses to show, and what somebody has published
  std::string where;        // the file, for messages

  // The product of the lists; 1 without any.
  size_t size() const;
  // Rows of the table: a search has one for each of its targets.
  size_t rows() const { return size() * (search ? search->at_least.size() : 1); }
  // Builds every scenario of the product, the last axis fastest, and hands it on with one value
  // index per axis. InvalidArgument, file first, for the first that cannot be; stops there.
  absl::Status ForEach(
      const std::function<absl::Status(const Scenario&, const std::vector<size_t>&)>& use) const;
  // The same before each is put together, for who sets one key more.
  absl::Status ForEachDraft(
      const std::function<absl::Status(const Draft&, const std::vector<size_t>&)>& use) const;
};

// InvalidArgument, one line with file, line and known keys: an unknown key or name, a value out of
// bounds, a list that is empty or repeats itself, too large a product, a search over given nodes,
// a search or more than kMostUncertain scenarios with ranges in [assume].
absl::StatusOr<ScenarioFile> ReadScenarioFile(const TomlValue& root);

}  // namespace longhaul::simulator
