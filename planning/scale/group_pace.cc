#include "planning/scale/group_pace.h"

#include <limits>
#include <utility>

#include <fmt/format.h>

#include "experiments/train/simulated_clock.h"
#include "experiments/train/traffic.h"

namespace longhaul::scale {

absl::StatusOr<GroupPace> GroupPace::Of(const ScaleSpec& spec) {
  GroupPace pace;
  pace.between_ = spec.between;
  pace.exchange_ = spec.exchange;
  pace.restarts_ = spec.run.net.slow_start_after_idle;
  RunSpec one = spec.run;  // every group is alike, but for its speed
  one.outer.groups = 1;
  one.outer.on_group_loss = "end";
  one.compute->group_speed.clear();
  const auto group = SimulatedClock::Of(one, [&](int64_t, int64_t) { return spec.inside; });
  if (!group.ok()) return group.status();
  pace.program_ = (*group)->program();
  pace.costs_ = (*group)->costs(0);
  for (const PipelineCosts::Stage& stage : pace.costs_.stages) {
    pace.compute_s_ +=
        static_cast<double>(one.train.microbatches) * (stage.forward_s + stage.backward_s);
  }
  for (const PipelineCosts::Rank& rank : pace.costs_.ranks) pace.compute_s_ += rank.step_s;
  const int64_t most = pace.largest_stage_ = LargestStage(one);
  if (spec.run.outer.groups > 1) {
    const auto bytes = MessageBytes(one.outer.codec, {1, static_cast<uint64_t>(most)});
    if (!bytes) {
      return absl::InvalidArgumentError(
          fmt::format("codec '{}' takes no tensor of {} x {}", one.outer.codec, 1, most));
    }
    pace.between_.message_bytes = *bytes;
  }
  const absl::StatusOr<double> step = StepPeriod(pace.program_, pace.costs_);
  if (!step.ok()) return step.status();
  pace.step_s_ = *step;
  return pace;
}

double GroupPace::StepSeconds(const std::vector<Hindrance>& hindrances) {
  std::vector<decltype(Hindrance().Key())> key;
  for (const Hindrance& h : hindrances) key.push_back(h.Key());
  if (const auto at = known_.find(key); at != known_.end()) return at->second;
  PipelineCosts costs = costs_;
  for (const Hindrance& h : hindrances) h.On(&costs);
  // The schedule is proven by Of.
  return known_[key] = StepPeriod(program_, costs).value_or(step_s_);
}

double GroupPace::Connections(int64_t peers) const {
  return exchange_ == ScaleSpec::Exchange::kShared ? static_cast<double>(peers) : 1;
}

Wire GroupPace::ExchangeWire(int64_t peers) const {
  const double frames = Connections(peers);
  BoundaryLink link = between_;
  link.message_bytes *= frames;
  // What connections that share a line do to each other in its queue is in no model.
  if (frames > 1 || link.control == Wire::Control::kBbr) {
    link.queue_packets = std::numeric_limits<double>::infinity();
  }
  // An exchange of many alike is one wire, which cannot go by segments: BBR is slow start alone there.
  if (link.control == Wire::Control::kBbr) link.control = Wire::Control::kReno;
  Wire wire = ColdWireOf(link, frames);
  wire.restarts = restarts_;
  wire.both_ways = true;
  return wire;
}

double GroupPace::FetchSeconds(int64_t sources) const {
  return longhaul::FetchSeconds(largest_stage_, sources, between_);
}

}  // namespace longhaul::scale
