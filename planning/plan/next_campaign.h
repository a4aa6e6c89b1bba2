#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "planning/plan/plan.h"

namespace longhaul::plan {

// What decides between the first two.
struct NextStep {
  // kNothing: the first wins. kClock: running both. kFactor: a campaign that measures `factor` of
  // `row`. kUnknown: the same for a choice whose quality nobody measured; of rows with a time there
  // are fewer than two.
  enum class Kind { kNothing, kClock, kFactor, kUnknown } kind = Kind::kNothing;
  size_t row = 0;
  std::string factor = {};
  double share = 0;  // of the half-width, by its square
};
NextStep NextStepOf(const Plan& plan);

// One line: what to measure next and the command to type; `spec` is the plan's file.
std::string NextText(const Plan& plan, const std::string& spec);

// A campaign that measures it, as `longhaul measure` reads it: eight seeds, D0 the tokens that the
// loss needs. FailedPrecondition: nothing that a campaign measures is next.
absl::StatusOr<std::string> NextCampaign(const Plan& plan);

}  // namespace longhaul::plan
