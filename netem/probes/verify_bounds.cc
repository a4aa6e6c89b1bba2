#include "netem/probes/verify_bounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "netem/topology/access_lines.h"

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

}  // namespace

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
  if (absl::AbsDuration(rtt.median - rtt.nominal) <= bound) return "";
  return fmt::format("idle round trip {:.3f} ms, want {:.3f} +- {:.3f} ms",
                     absl::ToDoubleMilliseconds(rtt.median),
                     absl::ToDoubleMilliseconds(rtt.nominal), absl::ToDoubleMilliseconds(bound));
}

std::string ComplainOfRate(const Topology& topology, const VerifyOptions& options,
                           const PathSpec& path, const RateSample& rate) {
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
