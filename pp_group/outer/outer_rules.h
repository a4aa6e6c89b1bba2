#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "pp_group/outer/outer_plan.h"

namespace longhaul {

// What an outer algorithm is, apart from the figures of a spec. The table is in outer_rules.cc.
struct OuterRule {
  std::string_view name;
  std::string_view source;  // arXiv
  enum class Crosses { kDeltas, kParameters, kGradients } crosses;
  // Who meets in an exchange: all groups; pairs that are drawn anew each time; the groups of one
  // cluster, and now and then those with one place in their clusters.
  enum class Meets { kAll, kPairs, kLevels } meets = Meets::kAll;
  // What its paper takes; a spec may say otherwise. An empty codec must be chosen.
  double lr, momentum;
  std::string_view codec = "";
  std::string_view inner = "adamw";
  // What a group sends of its gradient: itself; with each clip group at most clip_norm / sqrt(G)
  // long; times the learning rate; or, after the warm-up, the mean first moment with it.
  enum class Sends { kGradient, kClipped, kTimesRate, kMoment } sends = Sends::kGradient;
  bool density_falls = false;  // while gradients warm up: from a quarter of the values
  bool overlaps = false;       // takes fragments, overlap and mix
  bool late_round = false;     // overlap is H unless the spec says otherwise
  bool eager = false;          // only of others a group's average is late
  double mix = 0;
  bool in_python = false;  // the rule is a class of the user's
};

// "python:FILE:CLASS": a class of a file.
struct PythonClass {
  std::string file, name;
};
std::optional<PythonClass> PythonClassOf(std::string_view value);
// InvalidArgument: begins with "python:" and names none.
absl::Status CheckPythonClass(std::string_view value);

// NotFound, with the names that there are.
absl::Status CheckOuterName(std::string_view name);
// nullptr: there is none of that name.
const OuterRule* FindOuterRule(std::string_view name);
std::vector<std::string_view> OuterNames();
bool ExchangesGradients(std::string_view name);

// The inner optimizers (inner_optimizer.h).
std::vector<std::string_view> InnerOptimizerNames();
// The one that is given, or else its outer algorithm's.
std::string InnerOptimizerOf(const std::string& given, std::string_view algorithm);

// InvalidArgument, one line: figures that the algorithm does not take, that do not fit each other,
// or a run of so many blocks and groups.
absl::Status CheckOuterFigures(const OuterSpec& spec, int64_t blocks, int64_t groups);

}  // namespace longhaul
