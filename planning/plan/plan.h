#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "netem/topology/topology.h"
#include "planning/plan/placement.h"
#include "planning/plan/plan_spec.h"

namespace longhaul::plan {

// What a choice takes on given links and machine, by the simulated clock: what python/longhaul/planning/plan ranks. No
// training, no randomness: the same files give the same rows.
struct PlanRow {
  Candidate choice;
  Placement placement = {};  // the best; its seconds are those of a step, exchanges included
  double least_step_s = 0;   // no placement has a shorter step
  int64_t worker_bytes = 0;  // of the largest worker, as planned before a run
  bool within = true;        // the bound on it
};

struct Plan {
  Topology links;
  std::vector<std::string> link_notes = {};  // what the links' figures are not (link_matrix.h)
  std::vector<PlanRow> rows;                 // in the order of the lists
  std::vector<LeftOut> left_out;
};

// Memory of a worker, in bytes: who knows a process says.
using WorkerBytes = std::function<int64_t(const RunSpec&)>;

// Errors: the files'; links that a clock has no model of; no choice within the bound (ResourceExhausted).
absl::StatusOr<Plan> PlaceChoices(const PlanSpec& spec, const SpecNames& names,
                                  const WorkerBytes& worker_bytes);

// Bytes of a micro-batch there and back over a boundary; nullopt: no such codecs.
struct BothWays {
  double there, back;
};
std::optional<BothWays> PairBytes(const RunSpec& spec, const std::string& pair);

double Parameters(const RunSpec& spec);

// The run of a row as `longhaul run` takes it over shaped links that are the matrix as placed, in the
// file `links` (TopologyToml of it): compute is slept, nothing is trained.
RunSpec TimedRun(const PlanRow& row, const std::string& links);
// Node i is rank i.
Topology PlacedLinks(const Plan& plan, const PlanRow& row);
// The unsplit, uncompressed, undivided run with the same global batch.
RunSpec ReferenceOf(const RunSpec& run);

}  // namespace longhaul::plan
