#include "planning/simulator/engine_times.h"

#include <algorithm>
#include <limits>

#include "experiments/estimates/step_time.h"
#include "planning/simulator/pipeline.h"

namespace longhaul::simulator {
namespace {

constexpr int64_t kMost = 1024;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double Step(const Scenario& s, const Outcome& out) {
  if (out.stages == 1) return out.step_time;
  const bool wan =
      out.mode == Mode::kPurePipeline || s.switches.pipeline_links == PipelineLinks::kWan;
  const double rate = wan ? std::min(s.wan_up, s.wan_down) : s.regional_rate;
  const double rtt = wan ? s.wan_rtt : s.regional_rtt;
  const BoundaryBits bits = BitsOfStep(s, out);
  const auto link = [&](double of_step) {
    return BoundaryLink{of_step / 8 / static_cast<double>(s.micro_batches), rate, rtt / 2};
  };
  const size_t boundaries = static_cast<size_t>(out.stages) - 1;
  const StageCost stage{.forward_s = out.compute_time / 3,
                        .backward_s = out.compute_time * 2 / 3,
                        .weight_gradient_s = out.compute_time / 3};
  return PredictStepSeconds(
             {.schedule = "1f1b",
              .microbatches = static_cast<int>(s.micro_batches),
              .stages = std::vector<StageCost>(boundaries + 1, stage),
              .forward = std::vector<BoundaryLink>(boundaries, link(bits.forward)),
              .backward = std::vector<BoundaryLink>(boundaries, link(bits.backward))})
      .value_or(kNone);
}

double Sync(const Scenario& s, const Outcome& out) {
  const double peers = static_cast<double>(out.replicas) - 1;
  if (peers < 1) return 0;
  const double bytes = peers * out.payload_bits / 8 / static_cast<double>(out.stages);
  Connection fresh;
  return Take(ColdWireOf({bytes, std::min(s.wan_up, s.wan_down), s.wan_rtt / 2}, peers), 0, &fresh)
      .arrived;
}

}  // namespace

EngineTimes EngineTimesOf(const Scenario& s, const Outcome& out) {
  if (out.stages > kMost || s.micro_batches > kMost) return {kNone, kNone};
  return {Step(s, out), Sync(s, out)};
}

}  // namespace longhaul::simulator
