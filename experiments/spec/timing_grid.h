#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/spec/campaign.h"
#include "experiments/spec/spec.h"
#include "netem/topology/toml_tree.h"

namespace longhaul {

// A grid of runs about step times: every profile x pair of codecs x schedule x S x G, each as often
// as `repeats` says. The base is a run spec; net.transport is "ucx". Runs are named by their cell,
// "continental-us, int8-b64, 1f1b, 2 x 4", groups x stages, and numbered by seed from 1.
//
//   [timing]
//   name = "timing"
//   question = "On which links does which codec pay?"
//   repeats = 3
//   profiles = ["regional", "continental-us"]      # or topology files
//   codecs = ["none", "int4-b64-h64 / int8-b64"]   # of both directions, or forward / backward
//   schedules = ["gpipe", "1f1b"]
//   stages = [2, 4]
//   groups = [1]
//   [model] ...                                    # the base
struct TimingGrid {
  std::string name, question;
  int64_t repeats;
  std::vector<PlannedRun> runs;  // repeat by repeat, so that a stopped grid is balanced
};

// True when the file has a [timing] table.
bool IsTimingGrid(const TomlValue& root);

// Reads, checks and expands. InvalidArgument with file and line as ReadRunSpec; also: an empty
// list, a value twice, above 4,096 runs, a base that is not shaped.
absl::StatusOr<TimingGrid> ReadTimingGrid(const TomlValue& root, const SpecNames& names);

// What is promised before the first run: question, repeats, and every cell's resolved spec.
std::string PlanText(const TimingGrid& grid);

// What a cell's codecs are called: "none", or "int4-b64-h64 / int8-b64" where the directions
// differ.
std::string PairName(const std::string& forward, const std::string& backward);

}  // namespace longhaul
