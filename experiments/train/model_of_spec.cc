#include "experiments/train/model_of_spec.h"

#include "experiments/train/traffic.h"

namespace longhaul {

double ForwardFlops(const RunSpec& spec, int64_t stage) {
  constexpr double kExpertsOfAToken = 2;
  const StageLayout layout = LayoutOf(spec, stage);
  const auto width = static_cast<double>(spec.model.width),
             context = static_cast<double>(spec.model.context);
  double weights = 0;  // that one token meets
  for (const ParameterSlot& slot : layout.slots) {
    if (!slot.decays || slot.name.starts_with("embedding.")) continue;
    const bool experts = slot.name.find("experts.") != std::string::npos;
    weights += static_cast<double>(slot.elements()) *
               (experts ? kExpertsOfAToken / static_cast<double>(spec.model.experts) : 1);
  }
  if (layout.last() && layout.tied) weights += static_cast<double>(spec.model.vocab) * width;
  const double tokens =
      static_cast<double>(spec.train.batch_rows / spec.train.microbatches) * context;
  const double attention = 4 * context * width * static_cast<double>(layout.num_blocks);
  return tokens * (2 * weights + attention);
}

std::vector<PipelineCosts::Stage> StageSeconds(const RunSpec& spec) {
  const RunSpec::Compute& machine = *spec.compute;
  std::vector<PipelineCosts::Stage> stages;
  for (int64_t s = 0; s < spec.stages(); ++s) {
    if (machine.flops_per_s > 0) {
      const double pass_s = ForwardFlops(spec, s) / (machine.flops_per_s * machine.mfu);
      stages.push_back({.forward_s = pass_s,
                        .backward_s = 2 * pass_s,
                        .input_gradient_s = pass_s,
                        .weight_gradient_s = pass_s});
      continue;
    }
    const auto at = static_cast<size_t>(s);
    stages.push_back({.forward_s = machine.forward_s[at],
                      .backward_s = machine.backward_s[at],
                      .input_gradient_s = machine.backward_s[at]});
  }
  return stages;
}

}  // namespace longhaul
