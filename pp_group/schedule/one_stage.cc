#include "pp_group/schedule/one_stage.h"

#include <algorithm>
#include <cstdint>

namespace longhaul {

Program GPipe(int stage, int, int num_microbatches) {
  Program program;
  for (int m = 0; m < num_microbatches; ++m) program.push_back({stage, Op::kForward, m});
  for (int m = 0; m < num_microbatches; ++m) program.push_back({stage, Op::kBackward, m});
  return program;
}

Program OneForwardOneBackward(int stage, int num_stages, int num_microbatches) {
  return DeepOneForwardOneBackward(stage, num_stages, num_microbatches, /*depth=*/0);
}

Program DeepOneForwardOneBackward(int stage, int num_stages, int num_microbatches, int depth) {
  const int64_t wanted = (num_stages - 1 - stage) * (int64_t{1} + depth);
  const int warm_up = static_cast<int>(std::min<int64_t>(wanted, num_microbatches));
  Program program;
  int forward = 0;
  while (forward < warm_up) program.push_back({stage, Op::kForward, forward++});
  for (int backward = 0; backward < num_microbatches; ++backward) {
    if (forward < num_microbatches) program.push_back({stage, Op::kForward, forward++});
    program.push_back({stage, Op::kBackward, backward});
  }
  return program;
}

Program ZeroBubbleH1(int stage, int num_stages, int num_microbatches) {
  const int warm_up = std::min(num_stages - 1 - stage, num_microbatches);
  Program program;
  int forward = 0, weight = 0;
  while (forward < warm_up) program.push_back({stage, Op::kForward, forward++});
  for (int input = 0; input < num_microbatches; ++input) {
    if (forward < num_microbatches) program.push_back({stage, Op::kForward, forward++});
    program.push_back({stage, Op::kInputGradient, input});
    if (input >= stage) program.push_back({stage, Op::kWeightGradient, weight++});
  }
  while (weight < num_microbatches) program.push_back({stage, Op::kWeightGradient, weight++});
  return program;
}

}  // namespace longhaul
