#include <linux/sock_diag.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <thread>
#include <vector>

#include "base/status_macros.h"
#include "netem/probes/probe.h"
#include "netem/probes/probe_sockets.h"
#include "netem/probes/verify_bounds.h"
#include "netem/topology/queue_limits.h"

namespace longhaul {
namespace {

constexpr absl::Duration kLossGrace = absl::Milliseconds(300);

void SendEvenly(const Fd& sender, const SocketAddress& to, size_t payload_bytes, int64_t count,
                BitsPerSecond rate, int mtu) {
  const std::vector<char> payload(payload_bytes, 'x');
  const double frame_s = static_cast<double>(FrameBytes(mtu)) * 8 / rate.value;
  const absl::Time start = MonotonicNow();
  for (int64_t i = 0; i < count; ++i) {
    const absl::Duration early =
        absl::Seconds(frame_s * static_cast<double>(i)) - (MonotonicNow() - start);
    if (early > absl::Milliseconds(1)) absl::SleepFor(early);
    while (sendto(sender.get(), payload.data(), payload.size(), 0, to.get(), to.bytes) < 0 &&
           errno == EAGAIN) {
      WaitFor(sender, POLLOUT, absl::Milliseconds(50));
    }
  }
}

// Datagrams that came over the link and found the receiver's buffer full: no loss of the link.
int64_t DroppedByReceiver(const Fd& fd) {
  uint32_t info[SK_MEMINFO_VARS] = {};
  socklen_t size = sizeof info;
  if (getsockopt(fd.get(), SOL_SOCKET, SO_MEMINFO, info, &size) != 0) return 0;
  return info[SK_MEMINFO_DROPS];
}

}  // namespace

absl::StatusOr<LossSample> ProbeLoss(const Emulator& emulator, int from, int to, int64_t count,
                                     BitsPerSecond rate, IpVersion ip) {
  ASSIGN_OR_RETURN(auto path, ProbedPath(emulator, from, to));
  if (count < 1 || !(rate.value > 0)) {
    return absl::InvalidArgumentError("probe: want at least one datagram and a rate");
  }
  SocketAddress address, own;
  ASSIGN_OR_RETURN(auto receiver, BoundSocket(emulator, to, ip, SOCK_DGRAM, address));
  ASSIGN_OR_RETURN(auto sender, BoundSocket(emulator, from, ip, SOCK_DGRAM, own));
  WidenReceiveBuffer(receiver);

  std::atomic<bool> sent_all = false;
  std::thread sending([&] {
    const int mtu = emulator.topology().mtu;
    SendEvenly(sender, address, static_cast<size_t>(UdpPayloadBytes(mtu, ip)), count, rate, mtu);
    sent_all = true;
  });
  // Nothing is on its way any more when nothing came for as long as a full frame takes, there and
  // back at most.
  const Topology& topology = emulator.topology();
  const absl::Duration quiet =
      NominalEchoRtt(topology, *path, static_cast<int>(FrameBytes(topology.mtu))) +
      6 * path->jitter + MostTraceWait(topology, from, to) + kLossGrace;
  int64_t received = 0;
  while (received < count) {
    const bool last_wait = sent_all;
    if (!WaitFor(receiver, POLLIN, quiet)) {
      if (last_wait) break;
      continue;
    }
    while (recv(receiver.get(), nullptr, 0, MSG_TRUNC | MSG_DONTWAIT) >= 0) ++received;
  }
  sending.join();
  received = std::min(count, received + DroppedByReceiver(receiver));
  return LossSample{MeanLoss(*path), count, received};
}

double LossStandardError(const PathSpec& path, int64_t packets) {
  const double p = MeanLoss(path);
  double variance = p * (1 - p);
  if (path.burst_loss) {
    const BurstLoss& b = *path.burst_loss;
    const double turns = b.to_bad + b.to_good;
    // Correlation of the state from one packet to the next; of n packets' sum, the covariances add
    // twice the geometric series of it.
    const double memory = 1 - turns;
    const double step = b.loss_bad - b.loss_good;
    if (turns > 0 && memory > 0) {
      variance += 2 * step * step * (b.to_bad / turns) * (b.to_good / turns) * memory / turns;
    }
  }
  return std::sqrt(variance / static_cast<double>(packets));
}

}  // namespace longhaul
