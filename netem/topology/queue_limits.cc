#include "netem/topology/queue_limits.h"

#include <algorithm>
#include <cmath>

#include "netem/topology/access_lines.h"

namespace longhaul {
namespace {

constexpr double kMinQueuePackets = 64;
constexpr int kEthernetHeaderBytes = 14;
constexpr int kTcpIpHeaderBytes = 20 + 20 + 12;  // IPv4, TCP, the timestamp option

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

int64_t FrameBytes(int mtu) { return mtu + kEthernetHeaderBytes; }

double TcpPayloadShare(int mtu) {
  return static_cast<double>(mtu - kTcpIpHeaderBytes) / static_cast<double>(FrameBytes(mtu));
}

int64_t QueuePackets(BitsPerSecond rate, absl::Duration rtt, double depth_bdp, int mtu) {
  return static_cast<int64_t>(std::ceil(QueueDepthInBdp(rate, rtt, depth_bdp, mtu)));
}

int64_t AccessLimitPackets(const Topology& topology, int node, BitsPerSecond rate) {
  absl::Duration rtt = absl::ZeroDuration();
  double depth_bdp = 0;
  const auto is_behind = [&](int end) {
    return end == node || InOneSite(topology, end, node);  // and so of the same line
  };
  for (const PathSpec& path : topology.paths) {
    if (is_behind(path.from) == is_behind(path.to)) continue;
    rtt = std::max(rtt, NominalRtt(topology, path));
    depth_bdp = std::max(depth_bdp, path.queue_bdp);
  }
  const auto& site = topology.nodes[node].site;
  const auto& access = site ? topology.sites[*site].access : topology.nodes[node].access;
  if (access && access->queue) {
    return static_cast<int64_t>(
        std::ceil(QueueDepthAsked(*access->queue, rate, rtt, topology.mtu)));
  }
  return QueuePackets(rate, rtt, depth_bdp, topology.mtu);
}

int64_t PathLimitPackets(const Topology& topology, const PathSpec& path) {
  const absl::Duration held = path.delay + 3 * path.jitter;
  if (path.rate) {
    const absl::Duration rtt = NominalRtt(topology, path);
    const double queue = path.queue
                             ? QueueDepthAsked(*path.queue, *path.rate, rtt, topology.mtu)
                             : QueueDepthInBdp(*path.rate, rtt, path.queue_bdp, topology.mtu);
    const double delay_line = QueuesApart(path) ? 0 : Packets(*path.rate, held, topology.mtu);
    return static_cast<int64_t>(std::ceil(delay_line + queue));
  }
  const AccessSpec* access = UplinkOf(topology, path);
  if (access == nullptr) return kUnlimitedPackets;
  return 2 * static_cast<int64_t>(std::ceil(Packets(access->up, held, topology.mtu))) + 64;
}

}  // namespace longhaul
