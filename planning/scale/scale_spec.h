#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/spec/fault_script.h"
#include "experiments/spec/link_time.h"
#include "experiments/spec/spec.h"

namespace longhaul::scale {

// What a run would do in simulated time: the run's own spec, its faults, and what a simulation must
// be told beside them. A plain value.
struct ScaleSpec {
  RunSpec run;                   // with [compute]; S x G may be far more than a machine can start
  std::vector<Fault> faults;     // not drawn yet
  BoundaryLink inside, between;  // two stages of a group; the same stage of two groups
  // "[scale]", all optional:
  double restart_s = RunSpec::Compute::kRestartSeconds;  // compute.restart_s, if it is not given
  // After the first group is at the outer step, others have so long to come; who is later is left
  // out of the round. inf: whoever is alive is waited for.
  double round_deadline_s = std::numeric_limits<double>::infinity();
  // kShared: all frames of a rank to its peers go through its one access link, G-1 of them.
  // kPaths: every pair of ranks has a path of its own, as in a lab that is a full mesh.
  enum class Exchange { kShared, kPaths } exchange = Exchange::kShared;
  double mtbf_h = 0;  // each group is killed with exponential gaps of this mean; 0: never
};

// Groups that a simulation takes; a run's own limit is that of the machines.
inline constexpr int64_t kMostGroups = 100'000;
inline constexpr int64_t kMostStages = 1024;

// Reads a run spec and, beside its own tables, [[fault]] and
//   [scale]
//   restart_s = 30, round_deadline_s = 60, exchange = "shared" | "paths", between = "PROFILE",
//   mtbf_h = 24
// `sets` are overrides by path ("outer.inner_steps=100"). InvalidArgument with file and line, also
// where [compute] is missing, where groups never meet, and for a topology file in net.profile.
absl::StatusOr<ScaleSpec> ReadScaleSpec(const std::string& path,
                                        const std::vector<std::string>& sets,
                                        const SpecNames& names);
absl::StatusOr<ScaleSpec> ReadScaleSpec(TomlValue root, const SpecNames& names);

}  // namespace longhaul::scale
