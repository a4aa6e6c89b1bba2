#include "netem/probes/verify_bounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "netem/topology/access_lines.h"
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
std::string ComplainOfTrace(const Topology& topology, const VerifyOptions& options,
                            const PathSpec& path, const RateSample& rate) {
  const RateRange range = GoodputWithin(topology, path, rate);
  const bool alone = UplinkOf(topology, path) == nullptr && DownlinkOf(topology, path) == nullptr;
  const double least = alone ? range.least.value * (1 - MeanLoss(path)) : 0;
  if (rate.goodput.value >= least * (1 - options.rate_tolerance) &&
      rate.goodput.value <= range.most.value * (1 + options.rate_tolerance)) {
    return "";
  }
  return fmt::format("goodput {:.3f} Mbit/s ({}), want {:.3f} to {:.3f} Mbit/s of {:.1f} s of {}",
                     InMbit(rate.goodput), rate.congestion_control, least / 1e6, InMbit(range.most),
                     absl::ToDoubleSeconds(rate.measured_for), path.rate_trace->file);
}

}  // namespace

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
      "the trace lasts {:g} s: {:.1f} s of it carry {:.3f} to {:.3f} Mbit/s, which is what was "
      "judged{}",
      length_s, absl::ToDoubleSeconds(rate.measured_for), InMbit(range.least), InMbit(range.most),
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
  // The median of `sent` echoes wanders by the jitter of both ways.
  const absl::Duration jitter =
      3 * (path.jitter + back->jitter) / std::sqrt(static_cast<double>(rtt.received));
  const absl::Duration bound =
      std::max(options.rtt_tolerance, options.rtt_tolerance_fraction * rtt.nominal) + jitter;
  const absl::Duration wait = MostTraceWait(topology, path.from, path.to);
  const absl::Duration late = rtt.median - rtt.nominal;
  if (late >= -bound && late <= bound + wait) return "";
  if (wait > absl::ZeroDuration()) {
    return fmt::format(
        "idle round trip {:.3f} ms, want {:.3f} ms and up to {:.3f} ms for the traces' "
        "opportunities, +- {:.3f} ms",
        absl::ToDoubleMilliseconds(rtt.median), absl::ToDoubleMilliseconds(rtt.nominal),
        absl::ToDoubleMilliseconds(wait), absl::ToDoubleMilliseconds(bound));
  }
  return fmt::format("idle round trip {:.3f} ms, want {:.3f} +- {:.3f} ms",
                     absl::ToDoubleMilliseconds(rtt.median),
                     absl::ToDoubleMilliseconds(rtt.nominal), absl::ToDoubleMilliseconds(bound));
}

std::string ComplainOfRate(const Topology& topology, const VerifyOptions& options,
                           const PathSpec& path, const RateSample& rate) {
  if (path.rate_trace != nullptr) return ComplainOfTrace(topology, options, path, rate);
  const double want = rate.nominal_goodput.value * ShareThatArrives(topology, path);
  if (std::abs(rate.goodput.value - want) <= options.rate_tolerance * want) return "";
  return fmt::format("goodput {:.3f} Mbit/s ({}), want {:.3f} +- {:.1f} %", InMbit(rate.goodput),
                     rate.congestion_control, want / 1e6, options.rate_tolerance * 100);
}

std::string ComplainOfLoss(const PathSpec& path, const LossSample& loss) {
  const double bound =
      3 * LossStandardError(path, loss.sent) + (loss.nominal > 0 ? 1.0 / loss.sent : 0);
  if (std::abs(loss.loss() - loss.nominal) <= bound) return "";
  return fmt::format("{} of {} datagrams lost, {:.3f} %, want {:.3f} +- {:.3f} %",
                     loss.sent - loss.received, loss.sent, 100 * loss.loss(), 100 * loss.nominal,
                     100 * bound);
}

}  // namespace longhaul
