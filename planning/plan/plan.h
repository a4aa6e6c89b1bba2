#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/estimates/step_time_summary.h"
#include "netem/topology/topology.h"
#include "planning/plan/placement.h"
#include "planning/plan/plan_spec.h"
#include "planning/plan/quality.h"

namespace longhaul::plan {

// Which choice reaches a loss first on given links and machine, and when: tokens from what campaigns
// measured, seconds from the simulated clock. No training, no clock, no randomness: the same files
// give the same rows.

// Seconds of a training to the stated loss: those of a step times steps, of which there are as many as
// the reference's tokens over eta want. eta is the product of the factors; that they multiply is an
// assumption.
struct PlanRow {
  Candidate choice;
  Placement placement = {};  // the best; its seconds are those of a step, exchanges included
  double least_step_s = 0;   // no placement has a shorter step
  int64_t worker_bytes = 0;  // of the largest worker, as planned before a run
  bool within = true;        // the bound on it
  std::vector<EtaFactor> factors = {};
  std::vector<EtaFactor::Extrapolated> beyond = {};  // of all factors, and of the model's size
  // Why its quality is not known; "": it is. Then there is no time.
  std::string unknown = {};
  LnFactor ln_time = {};   // of seconds
  double reference_s = 0;  // to the loss, were eta 1
};

// What the clock may be off by, of ln seconds of two choices: with so much its steps are accepted
// against measured ones.
inline constexpr double kClockError = kAcceptedResidual;

// Of the first two rows with a time within the bound: T2 / T1, where factors that both have cancel.
struct Verdict {
  LnFactor ln_ratio;
  bool first_wins = false;  // the interval's low end is above 0
  // What contributes to its half-width, by its square, the largest first; names of factors, or
  // kClockName. Shares add up to 1. Empty: nothing is uncertain.
  struct Share {
    std::string name;
    double share;
    int row;  // 0 or 1: whose; the clock: 0
  };
  std::vector<Share> shares;
};
inline constexpr char kClockName[] = "the clock";

struct Plan {
  PlanSpec spec;
  Topology links;
  std::vector<std::string> link_notes = {};  // what the links' figures are not (link_matrix.h)
  LnFactor ln_reference_tokens;
  std::vector<PlanRow> rows;  // within the bound first; then those with a time, by time
  std::vector<LeftOut> left_out;
  std::optional<Verdict> verdict;  // none: fewer than two rows have a time
};

// Memory of a worker, in bytes: who knows a process says.
using WorkerBytes = std::function<int64_t(const RunSpec&)>;

// Errors: the files'; links that a clock has no model of; no choice within the bound
// (ResourceExhausted); a loss that the curve does not reach.
absl::StatusOr<Plan> MakePlan(const PlanSpec& spec, const SpecNames& names,
                              const WorkerBytes& worker_bytes);

// The run of a row as `longhaul run` takes it over shaped links that are the matrix as placed, in the
// file `links` (TopologyToml of it): compute is slept, nothing is trained.
RunSpec TimedRun(const PlanRow& row, const std::string& links);
// Node i is rank i.
Topology PlacedLinks(const Plan& plan, const PlanRow& row);

}  // namespace longhaul::plan
