#include "netem/queue_limits.h"

#include <algorithm>
#include <cmath>

namespace longhaul {
namespace {

constexpr double kMinQueuePackets = 64;
constexpr int kEthernetHeaderBytes = 14;
constexpr int kTcpIpHeaderBytes = 20 + 20 + 12;  // IPv4, TCP, the timestamp option

double Packets(BitsPerSecond rate, absl::Duration time, int mtu) {
  return rate.value * absl::ToDoubleSeconds(time) / (8.0 * static_cast<double>(FrameBytes(mtu)));
}

double QueueDepth(BitsPerSecond rate, absl::Duration rtt, double depth_bdp, int mtu) {
  return std::max(kMinQueuePackets, depth_bdp * Packets(rate, rtt, mtu));
}

}  // namespace

int64_t FrameBytes(int mtu) { return mtu + kEthernetHeaderBytes; }

double TcpPayloadShare(int mtu) {
  return static_cast<double>(mtu - kTcpIpHeaderBytes) / static_cast<double>(FrameBytes(mtu));
}

int64_t QueuePackets(BitsPerSecond rate, absl::Duration rtt, double depth_bdp, int mtu) {
  return static_cast<int64_t>(std::ceil(QueueDepth(rate, rtt, depth_bdp, mtu)));
}

int64_t AccessLimitPackets(const Topology& topology, int node, BitsPerSecond rate) {
  absl::Duration rtt = absl::ZeroDuration();
  double depth_bdp = 0;
  for (const PathSpec& path : topology.paths) {
    if (path.from != node && path.to != node) continue;
    rtt = std::max(rtt, NominalRtt(topology, path));
    depth_bdp = std::max(depth_bdp, path.queue_bdp);
  }
  return QueuePackets(rate, rtt, depth_bdp, topology.mtu);
}

int64_t PathLimitPackets(const Topology& topology, const PathSpec& path) {
  const absl::Duration held = path.delay + 3 * path.jitter;
  if (path.rate) {
    const double queue =
        QueueDepth(*path.rate, NominalRtt(topology, path), path.queue_bdp, topology.mtu);
    return static_cast<int64_t>(std::ceil(Packets(*path.rate, held, topology.mtu) + queue));
  }
  const auto& access = topology.nodes[path.from].access;
  if (!access) return kUnlimitedPackets;
  return 2 * static_cast<int64_t>(std::ceil(Packets(access->up, held, topology.mtu))) + 64;
}

}  // namespace longhaul
