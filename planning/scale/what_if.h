#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "experiments/estimates/interval.h"
#include "netem/topology/toml_tree.h"
#include "planning/scale/rounds.h"

namespace longhaul::scale {

// One key of the spec and the values that it takes in turn: "outer.inner_steps=50,100,200".
struct Axis {
  std::string key;
  std::vector<std::string> values;
};
absl::StatusOr<Axis> ParseAxis(const std::string& text);

// What the seeds of one point of the product say: means with their t intervals, of several seeds.
struct Point {
  std::vector<std::string> at;  // one value of each axis
  ScaleSpec spec;
  double step_s, ideal_goodput;
  std::vector<ScaleResult> seeds;
  Measured goodput, seconds, lost_share, utilisation;  // lost_share: of all tokens trained
};

// Every point of the product of the axes, each with seeds spec.seed, spec.seed + 1, ... At most
// 10,000 points. `seen` is called with each point as it is done. InvalidArgument as ReadScaleSpec.
absl::Status RunWhatIf(const TomlValue& root, const std::vector<Axis>& axes, int64_t seeds,
                       const SpecNames& names, const std::function<void(const Point&)>& seen);

std::string WhatIfText(const std::vector<Axis>& axes, const std::vector<Point>& points);
std::string WhatIfCsv(const std::vector<Axis>& axes, const std::vector<Point>& points);
// One document: every point with every seed, and where there is one point also its rounds.
std::string WhatIfJson(const std::vector<Axis>& axes, const std::vector<Point>& points);
// Goodput over the first axis, whose values are numbers, a line for each value of the others.
// FailedPrecondition: no axis, or values that are no numbers.
absl::StatusOr<std::string> WhatIfSvg(const std::vector<Axis>& axes,
                                      const std::vector<Point>& points);

}  // namespace longhaul::scale
