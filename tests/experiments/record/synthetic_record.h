#pragma once

#include <map>
#include <string>

#include "experiments/record/record.h"
#include "experiments/spec/campaign.h"

namespace longhaul {

// Writes a record as a campaign and shaped runs would, with losses and times from known laws, so
// that what comes out of the analysis and the report can be compared with what went in.
struct SyntheticWorld {
  double slope_nat = 0.37;
  double q = 0.99;  // true, per crossing
  double seed_effect_nat = 0.012;
  double noise_nat = 0.004;
  double codec_on_extra_nat = 0.01;
  int seeds = 3;
  std::string control_budgets = "0.9";
  // [[arm]] tables beside s2, s4 and s8, and what they lose beside their crossings. An arm without
  // a codec that is none or identity has the very losses of reference@1.
  std::string more_arms = "";
  std::map<std::string, double> extra_nat = {};
  bool with_steps = false;  // training losses and parameter hashes of three steps
};

// Arms with one direction compressed, at two depths: for more_arms.
inline constexpr char kDirectionArms[] = R"([[arm]]
name = "f4"
stages = 4
forward = "int4-b64-h64"
backward = "none"
[[arm]]
name = "b4"
stages = 4
forward = "none"
backward = "int8-b64"
[[arm]]
name = "f8"
stages = 8
forward = "int4-b64-h64"
backward = "none"
[[arm]]
name = "b8"
stages = 8
forward = "none"
backward = "int8-b64"
)";

// The smoke campaign (budgets 0.5 .. 1.1, control 0.9, arms s2, s4, s8). Returns its experiment.
int64_t WriteSyntheticCampaign(Record& record, const SyntheticWorld& world,
                               const std::string& name = "smoke");

// Two shaped runs (none, default-pair) of 2 groups x 2 stages and one in one process; wall times
// are P2's own times `disturbance`. Returns the experiment.
int64_t WriteSyntheticShapedRuns(Record& record, double disturbance);

}  // namespace longhaul
