#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/planning/placement.h"
#include "experiments/planning/prices.h"
#include "experiments/spec/spec.h"
#include "netem/topology/toml_tree.h"
#include "netem/topology/topology.h"

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
//   price_per_hour = 2.5                         # with link_price_per_gb: prices.h; nothing costs
//   rank_by = "cost"                             # which then places choices, too; "time"
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
  std::optional<PriceList> price_per_hour, link_price_per_gb;
  std::string rank_by = "time";
  bool by_cost() const { return rank_by == "cost"; }
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

// What a choice takes on given links and machine, by the simulated clock: what python/longhaul/planning/plan ranks. No
// training, no randomness: the same files give the same rows.
struct PlanRow {
  Candidate choice;
  // The best. Its seconds are those of a step, exchanges included; with rank_by = "cost" also those in
  // which the nodes cost as much as the step's traffic.
  Placement placement = {};
  double step_s = 0;
  double least_step_s = 0;  // no placement has a shorter step
  double sent_bytes =
      0;  // of a step, by all, on the wire; what it costs, and what the nodes do in it
  double traffic_cost = 0, compute_cost = 0;  // 0 without prices
  int64_t worker_bytes = 0;                   // of the largest worker, as planned before a run
  bool within = true;                         // the bound on it
};

struct Plan {
  Topology links;
  std::vector<PlanRow> rows;  // in the order of the lists
  std::vector<LeftOut> left_out;
};

// Memory of a worker, in bytes: who knows a process says.
using WorkerBytes = std::function<int64_t(const RunSpec&)>;

// `links`: of as many nodes as the run has workers. Errors: links that a clock has no model of; no choice
// within the bound (ResourceExhausted); those of PricesOf.
absl::StatusOr<Plan> PlaceChoices(const PlanSpec& spec, const SpecNames& names, Topology links,
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
// The same nodes and paths as a topology file, but for what a clock has no model of.
std::string TopologyToml(const Topology& links);
// The unsplit, uncompressed, undivided run with the same global batch.
RunSpec ReferenceOf(const RunSpec& run);

}  // namespace longhaul::plan
