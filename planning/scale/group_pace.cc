#include "planning/scale/group_pace.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "experiments/spec/pipeline_of_spec.h"
#include "experiments/train/stage_seconds.h"
#include "experiments/train/traffic.h"
#include "plugin/swarm/transfer_time.h"

namespace longhaul::scale {
namespace {

// Parameters, outer start and outer momentum would be three; start and parameters are one after a
// round.
constexpr double kFloatsFetched = 2;

absl::Status SetMessage(const std::string& codec, Shape shape, BoundaryLink* link) {
  const std::optional<double> bytes = MessageBytes(codec, shape);
  if (!bytes) {
    return absl::InvalidArgumentError(
        fmt::format("codec '{}' takes no tensor of {} x {}", codec, shape.rows, shape.cols));
  }
  link->message_bytes = *bytes;
  return absl::OkStatus();
}

}  // namespace

BoundaryLink Hindrance::On(BoundaryLink link) const {
  if (rate_bit_per_s > 0) link.rate_bit_per_s = rate_bit_per_s;
  if (one_way_delay_s >= 0) link.one_way_delay_s = one_way_delay_s;
  return link;
}

absl::StatusOr<GroupPace> GroupPace::Of(const ScaleSpec& spec) {
  const RunSpec& run = spec.run;
  GroupPace pace;
  pace.between_ = spec.between;
  pace.exchange_ = spec.exchange;
  pace.restarts_ = run.net.slow_start_after_idle;
  pace.pipeline_ = {run.schedule.kind, static_cast<int>(run.train.microbatches), {}, {}, {}};
  absl::StatusOr<PipelineProgram> program = PipelineOf(run);
  if (!program.ok()) return program.status();
  pace.pipeline_.program = *std::move(program);
  for (const PipelineCosts::Stage& stage : StageSeconds(run)) {
    pace.pipeline_.stages.push_back({.forward_s = stage.forward_s,
                                     .backward_s = stage.backward_s,
                                     .weight_gradient_s = stage.weight_gradient_s,
                                     .optimizer_s = run.compute->optimizer_s});
    pace.compute_s_ +=
        static_cast<double>(run.train.microbatches) * (stage.forward_s + stage.backward_s) +
        run.compute->optimizer_s;
  }
  RunSpec one = run;  // every group is alike
  one.outer.groups = 1;
  const auto crossings = PlanCrossings(one);
  if (!crossings.ok()) return crossings.status();
  std::map<std::pair<bool, std::string>, BoundaryLink> links;
  for (const PlannedCrossing& c : *crossings) {
    const bool tied = c.direction == Direction::kTied, forward = c.direction == Direction::kForward;
    if (c.direction == Direction::kOuter) continue;
    const auto [at, fresh] = links.try_emplace({tied, c.codec}, spec.inside);
    if (fresh) {
      if (absl::Status s = SetMessage(c.codec, c.shape, &at->second); !s.ok()) return s;
    }
    if (tied) {
      pace.pipeline_.tied = {at->second, at->second};
    } else {
      (forward ? pace.pipeline_.forward : pace.pipeline_.backward).push_back(at->second);
    }
  }
  int64_t most = 0;
  for (int64_t s = 0; s < run.schedule.stages; ++s) {
    most = std::max(most, LayoutOf(run, s).flat_elements);
  }
  pace.weight_bytes_ = kFloatsFetched * sizeof(float) * static_cast<double>(most);
  if (run.outer.groups > 1) {
    const Shape flat{1, static_cast<uint64_t>(most)};
    if (absl::Status s = SetMessage(run.outer.codec, flat, &pace.between_); !s.ok()) return s;
  }
  const absl::StatusOr<double> step = PredictStepSeconds(pace.pipeline_);
  if (!step.ok()) return step.status();
  pace.step_s_ = *step;
  return pace;
}

double GroupPace::StepSeconds(const std::vector<Hindrance>& hindrances) {
  std::vector<decltype(Hindrance().Key())> key;
  for (const Hindrance& h : hindrances) key.push_back(h.Key());
  if (const auto at = known_.find(key); at != known_.end()) return at->second;
  Pipeline p = pipeline_;
  for (const Hindrance& h : hindrances) {
    for (size_t s = 0; s < p.stages.size(); ++s) {
      if (h.stage >= 0 && static_cast<size_t>(h.stage) != s) continue;
      p.stages[s].forward_s *= h.slow;
      p.stages[s].backward_s *= h.slow;
      p.stages[s].weight_gradient_s *= h.slow;
      p.stages[s].optimizer_s *= h.slow;
    }
    if (h.boundary < 0) continue;
    BoundaryLink& link = (h.forward ? p.forward : p.backward)[static_cast<size_t>(h.boundary)];
    link = h.On(link);
  }
  const double seconds = PredictStepSeconds(p).value_or(step_s_);  // the schedule is proven by Of
  return known_[key] = seconds;
}

Wire GroupPace::ExchangeWire(int64_t peers) const {
  const double frames = exchange_ == ScaleSpec::Exchange::kShared ? static_cast<double>(peers) : 1;
  BoundaryLink link = between_;
  link.message_bytes *= frames;
  // What connections that share a line do to each other in its queue is in no model.
  if (frames > 1) link.queue_packets = std::numeric_limits<double>::infinity();
  Wire wire = ColdWireOf(link, frames);
  wire.restarts = restarts_;
  return wire;
}

double GroupPace::FetchSeconds(int64_t sources) const {
  const double rate = between_.rate_bit_per_s / 8;
  return absl::ToDoubleSeconds(
      TransferTime({.bytes = kWireFactor * weight_bytes_,
                    .sources = static_cast<int>(std::max<int64_t>(1, sources)),
                    .up_bytes_per_s = rate,
                    .down_bytes_per_s = rate,
                    .rtt = absl::Seconds(2 * between_.one_way_delay_s),
                    .round_trips_before_data = kSwarmRoundTrips}));
}

}  // namespace longhaul::scale
