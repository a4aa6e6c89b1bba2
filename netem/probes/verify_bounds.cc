#include "netem/probes/verify_bounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "netem/topology/access_lines.h"
#include "netem/topology/queue_limits.h"
#include "netem/topology/rate_trace.h"

namespace longhaul {
namespace {

// Of the nominal goodput under overload. Loss comes after the uplink and before every other rate:
// it thins what a narrow uplink lets through, but a later bottleneck stays full.
double ShareThatArrives(const Topology& topology, const PathSpec& path) {
  const AccessSpec* line = UplinkOf(topology, path);
  const bool uplink_is_least = line != nullptr && line->up <= *NominalRate(topology, path);
  const double offered = uplink_is_least ? 1 : kUdpOverload;
  return std::min(1.0, offered * (1 - MeanLoss(path)));
}

// What the measured time of the trace can carry, as goodput: the probe's payload has the same share
// of every frame.
RateRange GoodputWithin(const Topology& topology, const PathSpec& path, const RateSample& rate) {
  const RateTrace& trace = *path.rate_trace;
  const double share =
      rate.nominal_goodput.value / std::max(1.0, MeanRate(trace, topology.mtu).value);
  const RateRange range = RatesWithin(trace, topology.mtu, rate.measured_for);
  return {{range.least.value * share}, {range.most.value * share}};
}

// Lines beside the trace may be narrower than it at times: then only its most is a bound.
RateRange BoundOfTrace(const Topology& topology, const VerifyOptions& options, const PathSpec& path,
                       const RateSample& rate) {
  const RateRange range = GoodputWithin(topology, path, rate);
  const bool alone = UplinkOf(topology, path) == nullptr && DownlinkOf(topology, path) == nullptr;
  const double least = alone ? range.least.value * (1 - MeanLoss(path)) : 0;
  return {{least * (1 - options.rate_tolerance)},
          {range.most.value * (1 + options.rate_tolerance)}};
}

// Rates that a slow link's reader can tell apart.
std::string MbitText(double bit_per_s) { return fmt::format("{:.4g}", bit_per_s / 1e6); }

}  // namespace

RttBound BoundOfRtt(const Topology& topology, const VerifyOptions& options, const PathSpec& path,
                    const RttSample& rtt) {
  const PathSpec* back = FindPath(topology, path.to, path.from);
  // The median of `sent` echoes wanders by the jitter of both ways.
  const absl::Duration jitter =
      3 * (path.jitter + back->jitter) / std::sqrt(static_cast<double>(rtt.received));
  const absl::Duration bound =
      std::max(options.rtt_tolerance, options.rtt_tolerance_fraction * rtt.nominal) + jitter;
  return {rtt.nominal - bound, rtt.nominal + bound + MostTraceWait(topology, path.from, path.to)};
}

RateRange BoundOfRate(const Topology& topology, const VerifyOptions& options, const PathSpec& path,
                      const RateSample& rate) {
  if (path.rate_trace != nullptr) return BoundOfTrace(topology, options, path, rate);
  const double want = rate.nominal_goodput.value * ShareThatArrives(topology, path);
  return {{want * (1 - options.rate_tolerance)}, {want * (1 + options.rate_tolerance)}};
}

double BoundOfLoss(const PathSpec& path, const LossSample& loss) {
  const double sent = static_cast<double>(loss.sent);
  return 3 * LossStandardError(path, loss.sent) + (loss.nominal > 0 ? 1 / sent : 0);
}

absl::Duration TimeOfFrames(BitsPerSecond rate, int mtu, double frames) {
  return absl::Seconds(frames * 8 * static_cast<double>(FrameBytes(mtu)) / rate.value);
}

std::optional<absl::Duration> MeasuringTime(BitsPerSecond rate, int mtu, absl::Duration wanted) {
  constexpr double kLeastFrames = 10;
  constexpr absl::Duration kLongest = absl::Seconds(10);
  const absl::Duration time = TimeOfFrames(rate, mtu, kLeastFrames);
  if (time > std::max(kLongest, wanted)) return std::nullopt;
  return std::max(time, wanted);
}

absl::Duration MostTraceWait(const Topology& topology, int from, int to) {
  absl::Duration wait = absl::ZeroDuration();
  for (const PathSpec* path : {FindPath(topology, from, to), FindPath(topology, to, from)}) {
    if (path != nullptr && path->rate_trace != nullptr) wait += LongestWait(*path->rate_trace);
  }
  return wait;
}

std::string NoteOnRate(const Topology& topology, const PathSpec& path, const RateSample& rate) {
  if (path.rate_trace == nullptr) return "";
  const RateRange range = GoodputWithin(topology, path, rate);
  const double length_s = absl::ToDoubleSeconds(LengthOf(*path.rate_trace));
  return fmt::format(
      "the trace lasts {:g} s: {:.1f} s of it carry {} to {} Mbit/s, which is what was judged{}",
      length_s, absl::ToDoubleSeconds(rate.measured_for), MbitText(range.least.value),
      MbitText(range.most.value),
      absl::ToDoubleSeconds(rate.measured_for) < length_s ? ", not its mean" : "");
}

std::string ComplainOfRtt(const Topology& topology, const VerifyOptions& options,
                          const PathSpec& path, const RttSample& rtt) {
  if (rtt.sent == 0) return "";
  const PathSpec* back = FindPath(topology, path.to, path.from);
  const bool lossless = MeanLoss(path) == 0 && MeanLoss(*back) == 0;
  if (rtt.received == 0 || (lossless && rtt.received < rtt.sent)) {
    return fmt::format("{} of {} echoes came back", rtt.received, rtt.sent);
  }
  const RttBound bound = BoundOfRtt(topology, options, path, rtt);
  if (rtt.median >= bound.least && rtt.median <= bound.most) return "";
  const absl::Duration wait = MostTraceWait(topology, path.from, path.to);
  const double either_way_ms = absl::ToDoubleMilliseconds(rtt.nominal - bound.least);
  if (wait > absl::ZeroDuration()) {
    return fmt::format(
        "idle round trip {:.3f} ms, want {:.3f} ms and up to {:.3f} ms for the traces' "
        "opportunities, +- {:.3f} ms",
        absl::ToDoubleMilliseconds(rtt.median), absl::ToDoubleMilliseconds(rtt.nominal),
        absl::ToDoubleMilliseconds(wait), either_way_ms);
  }
  return fmt::format("idle round trip {:.3f} ms, want {:.3f} +- {:.3f} ms",
                     absl::ToDoubleMilliseconds(rtt.median),
                     absl::ToDoubleMilliseconds(rtt.nominal), either_way_ms);
}

std::string ComplainOfRate(const Topology& topology, const VerifyOptions& options,
                           const PathSpec& path, const RateSample& rate) {
  const RateRange bound = BoundOfRate(topology, options, path, rate);
  if (rate.goodput >= bound.least && rate.goodput <= bound.most) return "";
  const std::string of =
      path.rate_trace == nullptr ? "" : " in this time of " + path.rate_trace->file;
  return fmt::format("goodput {} Mbit/s ({}, {:.1f} s), want {} to {} Mbit/s{}",
                     MbitText(rate.goodput.value), rate.congestion_control,
                     absl::ToDoubleSeconds(rate.measured_for), MbitText(bound.least.value),
                     MbitText(bound.most.value), of);
}

std::string ComplainOfLoss(const PathSpec& path, const LossSample& loss) {
  const double bound = BoundOfLoss(path, loss);
  if (std::abs(loss.loss() - loss.nominal) <= bound) return "";
  return fmt::format("{} of {} datagrams lost, {:.3f} %, want {:.3f} +- {:.3f} %",
                     loss.sent - loss.received, loss.sent, 100 * loss.loss(), 100 * loss.nominal,
                     100 * bound);
}

}  // namespace longhaul
