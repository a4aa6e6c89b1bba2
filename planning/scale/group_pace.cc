#include "planning/scale/group_pace.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "experiments/train/simulated_clock.h"
#include "experiments/train/traffic.h"
#include "plugin/swarm/transfer_time.h"

namespace longhaul::scale {
namespace {

// Parameters, outer start and outer momentum would be three; start and parameters are one after a
// round.
constexpr double kFloatsFetched = 2;

constexpr double kFrameBits = 8 * 1514;  // of a segment

}  // namespace

Wire Hindrance::On(Wire wire) const {
  if (rate_bit_per_s > 0) wire.busy_s = wire.segments * kFrameBits / rate_bit_per_s;
  if (one_way_delay_s >= 0) wire.delay_s = one_way_delay_s;
  return wire;
}

absl::StatusOr<GroupPace> GroupPace::Of(const ScaleSpec& spec) {
  GroupPace pace;
  pace.between_ = spec.between;
  pace.exchange_ = spec.exchange;
  pace.restarts_ = spec.run.net.slow_start_after_idle;
  RunSpec one = spec.run;  // every group is alike, but for its speed
  one.outer.groups = 1;
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
  int64_t most = 0;
  for (int64_t s = 0; s < one.schedule.stages; ++s) {
    most = std::max(most, LayoutOf(one, s).flat_elements);
  }
  pace.weight_bytes_ = kFloatsFetched * sizeof(float) * static_cast<double>(most);
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
  for (const Hindrance& h : hindrances) {
    for (size_t s = 0; s < costs.stages.size(); ++s) {
      if (h.stage >= 0 && static_cast<size_t>(h.stage) != s) continue;
      PipelineCosts::Stage& stage = costs.stages[s];
      for (double* seconds : {&stage.forward_s, &stage.backward_s, &stage.input_gradient_s,
                              &stage.weight_gradient_s, &costs.ranks[s].step_s}) {
        *seconds *= h.slow;
      }
    }
    if (h.boundary < 0) continue;
    Wire& wire = (h.forward ? costs.activations : costs.gradients)[static_cast<size_t>(h.boundary)];
    wire = h.On(wire);
  }
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
