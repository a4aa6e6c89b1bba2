#include "experiments/spec/link_time.h"

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
  // BBR paces what it sends: it fills no queue, whatever its window.
  const bool paced = run.net.congestion_control.starts_with("bbr");
  if (!paced) link.queue_packets = static_cast<double>(PathQueuePackets(links, path));
  return link;
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
  wire.first_window *= connections;
  return wire;
}

double MessageSeconds(const BoundaryLink& link) {
  const Wire wire = WireOf(link);
  return wire.busy_s + wire.delay_s;
}

}  // namespace longhaul
