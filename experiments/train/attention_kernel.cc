#include "experiments/train/attention_kernel.h"

#include <fmt/format.h>

namespace longhaul {
namespace {

constexpr int64_t kHeadMultiple = 8;

int64_t HeadWidth(const RunSpec& spec) { return spec.model.width / spec.model.heads; }

}  // namespace

bool FusedAttentionFits(const RunSpec& spec) { return HeadWidth(spec) % kHeadMultiple == 0; }

std::vector<std::string> AttentionAdvice(const RunSpec& spec) {
  if (spec.injected() || spec.train.device == "cpu" || spec.train.attention != "fused" ||
      FusedAttentionFits(spec)) {
    return {};
  }
  return {fmt::format(
      "note: fused attention takes heads whose width is a multiple of {}, and model.width / "
      "model.heads = {}: the math kernel computes it, which is slower and keeps {} probabilities "
      "of each token",
      kHeadMultiple, HeadWidth(spec), spec.model.heads * spec.model.context)};
}

}  // namespace longhaul
