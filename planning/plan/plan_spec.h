#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/spec/spec.h"
#include "netem/topology/toml_tree.h"

namespace longhaul::plan {

// What a plan chooses among. A run spec with [compute] and, beside its own tables,
//
//   [plan]
//   target_loss_nat = 2.95                       # held out, at the end of a training
//   curve = "losses.csv"         # of a campaign, whose reference says the tokens
//   calibration = ["a/calibration.json", "b/calibration.json"]
//   links = "matrix.json"        # what `net probe --json` wrote, or as net.profile, which it replaces
//   schedules = ["1f1b", "gpipe"]                # all that take as many stages a rank as the run's
//   codecs = ["none / none", "int4-b64-h64 / int8-b64"]  # of boundaries; the run's
//   inner_steps = [10, 30]                       # H; the run's
//   algorithms = ["diloco", "dp"]                # outer; the run's
//   outer_codecs = ["none", "int4-b64-h64+ef"]   # the algorithm's own, else the run's
//   memory_bytes = 2_000_000_000                 # of the largest worker; compute.memory_gb, if any
//
// of which the first three must be there, and the comments say what the others default to. Files of
// [plan] count from the spec's folder, in overrides from the working folder.
struct PlanSpec {
  TomlValue root;  // without [plan], as the clock takes it
  RunSpec run;
  double target_loss_nat = 0;
  std::string curve;
  std::vector<std::string> calibrations;
  std::string links;
  std::vector<std::string> schedules, codecs, algorithms, outer_codecs;
  std::vector<int64_t> inner_steps;
  std::optional<int64_t> memory_bytes;
};

// InvalidArgument with file and line, as ReadRunSpec; also: no [compute], no [plan], and
// compute.group_speed, which says nothing of nodes. NotFound: a file of [plan], with both of its names.
absl::StatusOr<PlanSpec> ReadPlanSpec(const std::string& path, const std::vector<std::string>& sets,
                                      const SpecNames& names);
absl::StatusOr<PlanSpec> ReadPlanSpec(TomlValue root, const SpecNames& names);

// One choice but for the placement.
struct Candidate {
  RunSpec spec;
  std::string codec;        // of boundaries, "int4-b64-h64 / int8-b64"
  std::string outer_codec;  // "": groups do not meet
};
struct LeftOut {
  std::string what, why;
};

// Lists times lists, in their order. What a run spec or schedule does not take is left out with the
// reader's reason. InvalidArgument: nothing is left, or there are more than kMostCandidates.
inline constexpr size_t kMostCandidates = 500;
absl::StatusOr<std::vector<Candidate>> CandidatesOf(const PlanSpec& plan, const SpecNames& names,
                                                    std::vector<LeftOut>* left_out);

}  // namespace longhaul::plan
