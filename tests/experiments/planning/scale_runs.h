#pragma once

// Runs in simulated time, for their tests.

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "experiments/planning/scale.h"
#include "experiments/spec/known_names.h"
#include "tests/experiments/spec/specs.h"

namespace longhaul::scale {

inline const std::string kRun = InjectedRunToml("40") + R"([outer]
groups = 3
inner_steps = 10
codec = "none"
[net]
transport = "ucx"
profile = "continental-us"
congestion_control = "reno"
[eval]
rows = 1
)";

inline absl::StatusOr<ScaleSpec> Read(const std::string& more,
                                      const std::vector<std::string>& sets = {}) {
  absl::StatusOr<TomlValue> root = ParseToml(kRun + more, "run.toml");
  if (!root.ok()) return root.status();
  for (const std::string& set : sets) EXPECT_TRUE(SetByPath(*root, set).ok()) << set;
  return ReadScaleSpec(*std::move(root), CatalogNames());
}

struct Simulated {
  ScaleSpec spec;
  GroupPace pace;
  ScaleResult result;
};
inline Simulated Simulate(const std::string& more, const std::vector<std::string>& sets = {},
                          uint64_t seed = 1) {
  auto spec = Read(more, sets);
  EXPECT_TRUE(spec.ok()) << spec.status();
  auto pace = GroupPace::Of(*spec);
  EXPECT_TRUE(pace.ok()) << pace.status();
  ScaleResult result = SimulateRounds(*spec, *pace, seed);
  return {*spec, *pace, std::move(result)};
}

}  // namespace longhaul::scale
