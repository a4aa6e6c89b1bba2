#include "experiments/spec/link_time.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "netem/emulators/mtu_frames.h"
#include "netem/topology/queue_limits.h"
#include "plugin/swarm/transfer_time.h"

namespace longhaul {
namespace {

constexpr double kSegmentBytes = 1448;

// What the path loses of frames of its MTU, of which `tap` and netem both make all that crosses a path that
// loses. A damaged frame is lost to its receiver.
FrameLoss LossOf(const PathSpec& path) {
  const auto damaged = [&path](double lost) { return lost + (1 - lost) * path.rare.corrupt_prob; };
  if (!path.burst_loss) return {.prob = damaged(path.loss_prob)};
  const BurstLoss& b = *path.burst_loss;
  if (b.to_bad == 0) return {.prob = damaged(b.loss_good)};
  return {.to_bad = b.to_bad,
          .to_good = b.to_good,
          .loss_bad = damaged(b.loss_bad),
          .loss_good = damaged(b.loss_good)};
}

// Parameters, outer start and outer momentum would be three; start and parameters are one after a
// round.
constexpr double kFloatsFetched = 2;

absl::Status Refuse(const Topology& links, const std::string& why) {
  return absl::InvalidArgumentError(fmt::format(
      "net.profile '{}': {}, which a simulated clock has no model of; want paths with a "
      "rate and a delay of their own",
      links.profile, why));
}

}  // namespace

BoundaryLink LinkOf(const Topology& links, const PathSpec& path, const RunSpec& run) {
  BoundaryLink link{
      .rate_bit_per_s = std::numeric_limits<double>::infinity(),
      .one_way_delay_s = absl::ToDoubleSeconds(path.delay),
      .whole_buffers = run.net.emulator != "netem" && !NeedsMtuFrames(links, path.from),
      .loss = LossOf(path)};
  const std::string& control = run.net.congestion_control;
  if (control == "bbr") link.control = Wire::Control::kBbr;
  if (!path.rate) return link;
  link.rate_bit_per_s = static_cast<double>(path.rate->value);
  link.queue_packets = static_cast<double>(PathQueuePackets(links, path));
  if (control != "reno" && control != "bbr") link.control = Wire::Control::kCubic;
  return link;
}

absl::Status CheckControl(const RunSpec& run) {
  const std::string& control = run.net.congestion_control;
  for (const char* known : {"system", "reno", "cubic", "bbr"}) {
    if (control == known) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("net.congestion_control '{}': simulated links have no model of it; want system "
                  "(cubic), reno, cubic or bbr",
                  control));
}

absl::Status CheckLinks(const Topology& links) {
  if (!links.sites.empty()) return Refuse(links, "nodes share a site's access line");
  if (!links.changes.empty()) return Refuse(links, "paths change in the midst of the run");
  for (const NodeSpec& node : links.nodes) {
    if (node.access) return Refuse(links, fmt::format("paths share {}'s access line", node.name));
  }
  for (const PathSpec& path : links.paths) {
    const std::string where =
        fmt::format("path {} > {}", links.nodes[path.from].name, links.nodes[path.to].name);
    if (MeanLoss(path) >= 1) {
      return absl::InvalidArgumentError(fmt::format(
          "net.profile '{}': {} loses everything: no message ever arrives", links.profile, where));
    }
    if (path.rate_trace != nullptr) return Refuse(links, where + " has a rate that changes");
  }
  return absl::OkStatus();
}

Wire WireOf(const BoundaryLink& link, LinkPolicy policy) {
  const bool headers = policy != LinkPolicy::kSerialSlots;
  Wire wire{.busy_s = 8 * (headers ? kWireFactor : 1) * link.message_bytes / link.rate_bit_per_s,
            .delay_s = link.one_way_delay_s};
  if (policy == LinkPolicy::kOneAReceiver) wire.busy_s /= kWireFactor;
  return wire;
}

Wire ColdWireOf(const BoundaryLink& link, double connections) {
  Wire wire = WireOf(link);
  wire.segments = link.message_bytes / kSegmentBytes;
  wire.queue_segments = link.queue_packets;
  wire.whole_buffers = link.whole_buffers;
  wire.control = link.control;
  wire.loss = link.loss;
  wire.first_window *= connections;
  return wire;
}

double MessageSeconds(const BoundaryLink& link) {
  const Wire wire = WireOf(link);
  return wire.busy_s + wire.delay_s;
}

double FetchSeconds(int64_t parameters, int64_t sources, const BoundaryLink& path) {
  const double rate = path.rate_bit_per_s / 8;
  const double bytes = kFloatsFetched * sizeof(float) * static_cast<double>(parameters);
  return absl::ToDoubleSeconds(
      TransferTime({.bytes = kWireFactor * bytes,
                    .sources = static_cast<int>(std::max<int64_t>(1, sources)),
                    .up_bytes_per_s = rate,
                    .down_bytes_per_s = rate,
                    .rtt = absl::Seconds(2 * path.one_way_delay_s),
                    .round_trips_before_data = kSwarmRoundTrips}));
}

}  // namespace longhaul
