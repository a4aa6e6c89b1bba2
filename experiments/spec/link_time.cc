#include "experiments/spec/link_time.h"

#include <fmt/format.h>

#include "netem/emulators/mtu_frames.h"
#include "netem/topology/queue_limits.h"

namespace longhaul {
namespace {

constexpr double kSegmentBytes = 1448;

}  // namespace

BoundaryLink LinkOf(const Topology& links, const PathSpec& path, const RunSpec& run) {
  BoundaryLink link{
      .rate_bit_per_s = std::numeric_limits<double>::infinity(),
      .one_way_delay_s = absl::ToDoubleSeconds(path.delay),
      .whole_buffers = run.net.emulator != "netem" && !NeedsMtuFrames(links, path.from)};
  if (!path.rate) return link;
  link.rate_bit_per_s = static_cast<double>(path.rate->value);
  const std::string& control = run.net.congestion_control;
  // BBR paces what it sends: it fills no queue, whatever its window.
  if (control == "bbr") return link;
  link.queue_packets = static_cast<double>(PathQueuePackets(links, path));
  if (control != "reno") link.control = Wire::Control::kCubic;
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

Wire WireOf(const BoundaryLink& link) {
  return {.busy_s = 8 * kWireFactor * link.message_bytes / link.rate_bit_per_s,
          .delay_s = link.one_way_delay_s};
}

Wire ColdWireOf(const BoundaryLink& link, double connections) {
  Wire wire = WireOf(link);
  wire.segments = link.message_bytes / kSegmentBytes;
  wire.queue_segments = link.queue_packets;
  wire.whole_buffers = link.whole_buffers;
  wire.control = link.control;
  wire.first_window *= connections;
  return wire;
}

double MessageSeconds(const BoundaryLink& link) {
  const Wire wire = WireOf(link);
  return wire.busy_s + wire.delay_s;
}

}  // namespace longhaul
