#include "netem/topology/queue_limits.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "netem/topology/access_lines.h"

namespace longhaul {
namespace {

constexpr double kMinQueuePackets = 64;
constexpr int kLinkHeaderBytes = 14;
constexpr int kTcpHeaderBytes = 20 + 12;  // with the timestamp option

double Packets(BitsPerSecond rate, absl::Duration time, int mtu) {
  return rate.value * absl::ToDoubleSeconds(time) / (8.0 * static_cast<double>(FrameBytes(mtu)));
}

double QueueDepthInBdp(BitsPerSecond rate, absl::Duration rtt, double depth_bdp, int mtu) {
  return std::max(kMinQueuePackets, depth_bdp * Packets(rate, rtt, mtu));
}

// A depth that was asked for in other words is taken as it is: no least number of packets but one.
double QueueDepthAsked(const QueueDepth& queue, BitsPerSecond rate, absl::Duration rtt, int mtu) {
  switch (queue.unit) {
    case QueueDepth::Unit::kBdp:
      return QueueDepthInBdp(rate, rtt, queue.amount, mtu);
    case QueueDepth::Unit::kPackets:
      return queue.amount;
    case QueueDepth::Unit::kBytes:
      return std::max(1.0, queue.amount / static_cast<double>(FrameBytes(mtu)));
    case QueueDepth::Unit::kMilliseconds:
      return std::max(1.0, Packets(rate, absl::Milliseconds(queue.amount), mtu));
  }
  return kMinQueuePackets;
}

}  // namespace

int64_t FrameBytes(int mtu) { return mtu + kLinkHeaderBytes; }

double TcpPayloadShare(int mtu, int ip_header_bytes) {
  return static_cast<double>(mtu - ip_header_bytes - kTcpHeaderBytes) /
         static_cast<double>(FrameBytes(mtu));
}

int64_t QueuePackets(BitsPerSecond rate, absl::Duration rtt, double depth_bdp, int mtu) {
  return static_cast<int64_t>(std::ceil(QueueDepthInBdp(rate, rtt, depth_bdp, mtu)));
}

namespace {

// What decides how deep a queue is.
struct QueueAsked {
  BitsPerSecond rate;
  absl::Duration rtt;
  double depth_bdp;  // where nothing else was asked for
  std::optional<QueueDepth> depth;
};

int64_t PacketsOf(const QueueAsked& asked, int mtu) {
  if (!asked.depth) return QueuePackets(asked.rate, asked.rtt, asked.depth_bdp, mtu);
  return static_cast<int64_t>(std::ceil(QueueDepthAsked(*asked.depth, asked.rate, asked.rtt, mtu)));
}

QueueCapacity CapacityOf(const QueueAsked& asked, int mtu) {
  using Unit = QueueDepth::Unit;
  const bool in_bytes = asked.depth && (asked.depth->unit == Unit::kBytes ||
                                        asked.depth->unit == Unit::kMilliseconds);
  if (!in_bytes) return {.packets = PacketsOf(asked, mtu)};
  const double frames = QueueDepthAsked(*asked.depth, asked.rate, asked.rtt, mtu);
  return {.bytes = std::llround(frames * static_cast<double>(FrameBytes(mtu)))};
}

QueueAsked OfLine(const Topology& topology, int node, BitsPerSecond rate) {
  QueueAsked asked{rate, absl::ZeroDuration(), 0, std::nullopt};
  const auto is_behind = [&](int end) {
    return end == node || InOneSite(topology, end, node);  // and so of the same line
  };
  for (const PathSpec& path : topology.paths) {
    if (is_behind(path.from) == is_behind(path.to)) continue;
    asked.rtt = std::max(asked.rtt, NominalRtt(topology, path));
    asked.depth_bdp = std::max(asked.depth_bdp, path.queue_bdp);
  }
  const AccessSpec* access = LineBefore(topology, node);
  if (access != nullptr) asked.depth = access->queue;
  return asked;
}

QueueAsked OfPath(const Topology& topology, const PathSpec& path) {
  return {*path.rate, NominalRtt(topology, path), path.queue_bdp, path.queue};
}

absl::Duration TimeOf(const QueueAsked& asked, int mtu) {
  const double bits = 8.0 * static_cast<double>(PacketsOf(asked, mtu) * FrameBytes(mtu));
  return absl::Seconds(bits / asked.rate.value);
}

}  // namespace

int64_t AccessQueuePackets(const Topology& topology, int node, BitsPerSecond rate) {
  return PacketsOf(OfLine(topology, node, rate), topology.mtu);
}

int64_t PathQueuePackets(const Topology& topology, const PathSpec& path) {
  return PacketsOf(OfPath(topology, path), topology.mtu);
}

QueueCapacity AccessQueueCapacity(const Topology& topology, int node, BitsPerSecond rate) {
  return CapacityOf(OfLine(topology, node, rate), topology.mtu);
}

QueueCapacity PathQueueCapacity(const Topology& topology, const PathSpec& path) {
  return CapacityOf(OfPath(topology, path), topology.mtu);
}

absl::Duration FullQueuesTime(const Topology& topology, const PathSpec& path) {
  absl::Duration time = absl::ZeroDuration();
  if (path.rate) time += TimeOf(OfPath(topology, path), topology.mtu);
  if (const AccessSpec* line = UplinkOf(topology, path); line != nullptr) {
    time += TimeOf(OfLine(topology, path.from, line->up), topology.mtu);
  }
  if (const AccessSpec* line = DownlinkOf(topology, path); line != nullptr) {
    time += TimeOf(OfLine(topology, path.to, line->down), topology.mtu);
  }
  return time;
}

}  // namespace longhaul
