#pragma once

#include <cstdint>
#include <optional>

#include "experiments/record/record_rows.h"

namespace longhaul {

// Of group 0: a step of one token that took no time.
inline StepRow InstantStep(int64_t step, int64_t stage) {
  return {.step = step,
          .group_index = 0,
          .stage = stage,
          .loss_nat = std::nullopt,
          .tokens = 1,
          .wall_s = 0,
          .forward_s = 0,
          .backward_s = 0,
          .optimizer_s = 0,
          .wait_s = 0,
          .outer_s = 0};
}

}  // namespace longhaul
