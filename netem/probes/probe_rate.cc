#include <fmt/format.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/status_macros.h"
#include "netem/probes/probe.h"
#include "netem/probes/probe_sockets.h"
#include "netem/topology/access_lines.h"
#include "netem/topology/queue_limits.h"
#include "netem/topology/rate_trace.h"

namespace longhaul {
namespace {

constexpr size_t kChunkBytes = 128 * 1024;
constexpr size_t kTakeBytes = 1 << 20;
constexpr int kDrainCalls = 64;
constexpr absl::Duration kPollSlice = absl::Milliseconds(50);
constexpr absl::Duration kConnectDeadline = absl::Seconds(5);

absl::Status SetCongestionControl(const Fd& fd, std::string_view name) {
  if (name.empty() ||
      setsockopt(fd.get(), IPPROTO_TCP, TCP_CONGESTION, name.data(), name.size()) == 0) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      fmt::format("probe: choose congestion control '{}': {}", name, strerror(errno)));
}

struct Connection {
  Fd sender, receiver;
};

absl::StatusOr<Connection> Connect(const Emulator& emulator, int from, int to,
                                   std::string_view congestion_control, IpVersion ip) {
  SocketAddress address;
  ASSIGN_OR_RETURN(auto listener, BoundSocket(emulator, to, ip, SOCK_STREAM, address));
  if (listen(listener.get(), 1) != 0) return ErrnoStatus("probe: listen", errno);
  SocketAddress own;
  ASSIGN_OR_RETURN(auto sender, BoundSocket(emulator, from, ip, SOCK_STREAM, own));
  RETURN_IF_ERROR(SetCongestionControl(sender, congestion_control));
  // A probe that ends must not leave a drain of its queue behind: reset instead of close.
  const linger reset{1, 0};
  setsockopt(sender.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  const int started = connect(sender.get(), address.get(), address.bytes);
  if (started != 0 && errno != EINPROGRESS) return ErrnoStatus("probe: connect", errno);
  Connection connection{std::move(sender), Fd()};
  if (WaitFor(listener, POLLIN, kConnectDeadline)) {
    connection.receiver =
        Fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  }
  if (!connection.receiver.ok()) {
    return absl::DeadlineExceededError(
        fmt::format("probe: connect {} to {}: no answer in {}", NodeAddress(from), NodeAddress(to),
                    std::string(absl::FormatDuration(kConnectDeadline))));
  }
  return connection;
}

void SendUntil(const Fd& sender, const std::atomic<bool>& stop) {
  const std::vector<char> chunk(kChunkBytes, 'x');
  while (!stop) {
    if (WaitFor(sender, POLLOUT, kPollSlice)) {
      if (send(sender.get(), chunk.data(), chunk.size(), MSG_NOSIGNAL) < 0 && errno != EAGAIN) {
        return;
      }
    }
  }
}

// Sends full datagrams at `rate` (Ethernet level), a millisecond's worth at a time.
void SendDatagramsUntil(const Fd& sender, const SocketAddress& to, size_t payload_bytes,
                        BitsPerSecond rate, int mtu, const std::atomic<bool>& stop) {
  const std::vector<char> payload(payload_bytes, 'x');
  const double frame_s = static_cast<double>(FrameBytes(mtu)) * 8 / rate.value;
  const absl::Time start = MonotonicNow();
  double sent = 0;
  while (!stop) {
    const double owed = absl::ToDoubleSeconds(MonotonicNow() - start) / frame_s;
    for (; sent < owed; ++sent) {
      if (sendto(sender.get(), payload.data(), payload.size(), MSG_DONTWAIT, to.get(), to.bytes) <
          0) {
        sent = owed;  // what does not fit now is not owed any more
      }
    }
    absl::SleepFor(std::max(absl::Milliseconds(1), absl::Seconds(frame_s)));
  }
}

struct Received {
  int64_t bytes = 0;
  absl::Duration time;
};

// No byte waits in the kernel behind one that was lost and is still to come.
bool InOrder(const Fd& receiver) {
  uint32_t memory[SK_MEMINFO_VARS] = {};
  socklen_t size = sizeof memory;
  return getsockopt(receiver.get(), SOL_SOCKET, SO_MEMINFO, memory, &size) != 0 ||
         memory[SK_MEMINFO_RMEM_ALLOC] == 0;
}

// Takes what is there.
int64_t Drain(const Fd& receiver, size_t take_bytes, char* nowhere) {
  int64_t bytes = 0;
  for (int calls = 0; calls < kDrainCalls; ++calls) {
    const ssize_t got = recv(receiver.get(), nowhere, take_bytes, MSG_TRUNC | MSG_DONTWAIT);
    if (got <= 0) break;
    bytes += got;
  }
  return bytes;
}

// Counts what arrives after the warm-up, between two arrivals: so neither the wait for the first
// byte nor the silence after the last is counted. A stream begins and ends while it is in order, or
// what had arrived behind a hole before would count as arrived when the hole was filled; a quarter
// of `measure` is waited for such a moment.
// `take_bytes` per call: TCP throws that many away in the kernel (MSG_TRUNC); UDP, with 0, drops
// one datagram and tells its length. `nowhere` is never written; ThreadSanitizer thinks it is.
Received Count(const Fd& receiver, size_t take_bytes, absl::Duration warm_up,
               absl::Duration measure) {
  const absl::Time start = MonotonicNow();
  const auto nowhere = std::make_unique_for_overwrite<char[]>(take_bytes);
  std::optional<absl::Time> first;
  absl::Time last = start;
  int64_t bytes = 0;
  for (;;) {
    const absl::Time edge = first ? *first + measure : start + warm_up;
    const absl::Time latest = edge + measure / 4;
    if (MonotonicNow() >= (first ? latest : latest + measure)) break;
    if (!WaitFor(receiver, POLLIN, kPollSlice)) continue;
    const int64_t got = Drain(receiver, take_bytes, nowhere.get());
    if (got == 0) continue;
    const absl::Time at = MonotonicNow();
    if (first) {
      bytes += got;
      last = at;
    }
    if (at < edge || (take_bytes > 0 && at < latest && !InOrder(receiver))) continue;
    if (first) break;
    first = last = at;
  }
  return {bytes, first ? last - *first : absl::ZeroDuration()};
}

RateSample Judge(BitsPerSecond nominal, const Received& received, std::string how) {
  const double seconds = absl::ToDoubleSeconds(received.time);
  const double rate = seconds > 0 ? static_cast<double>(received.bytes) * 8 / seconds : 0;
  return {nominal, {rate}, std::move(how), received.time};
}

// More than the path carries at any time: of a trace, than it carries while a full queue of 64
// packets lasts.
BitsPerSecond OfferedRate(const PathSpec& path, BitsPerSecond nominal, int mtu) {
  constexpr absl::Duration kBusyTime = absl::Milliseconds(20);
  if (path.rate_trace == nullptr) return {nominal.value * kUdpOverload};
  return {RatesWithin(*path.rate_trace, mtu, kBusyTime).most.value * kUdpOverload};
}

}  // namespace

std::optional<BitsPerSecond> NominalRate(const Topology& topology, const PathSpec& path) {
  std::optional<BitsPerSecond> least = path.rate;
  const auto consider = [&](BitsPerSecond rate) { least = least ? std::min(*least, rate) : rate; };
  if (const AccessSpec* line = UplinkOf(topology, path); line != nullptr) consider(line->up);
  if (const AccessSpec* line = DownlinkOf(topology, path); line != nullptr) consider(line->down);
  return least;
}

absl::StatusOr<RateSample> ProbeRate(const Emulator& emulator, int from, int to,
                                     absl::Duration warm_up, absl::Duration measure,
                                     std::string_view congestion_control, IpVersion ip) {
  ASSIGN_OR_RETURN(auto path, ProbedPath(emulator, from, to));
  ASSIGN_OR_RETURN(auto connection, Connect(emulator, from, to, congestion_control, ip));
  char name[16] = {};
  socklen_t size = sizeof name;
  getsockopt(connection.sender.get(), IPPROTO_TCP, TCP_CONGESTION, name, &size);

  std::atomic<bool> stop = false;
  std::thread sender([&] { SendUntil(connection.sender, stop); });
  const Received received = Count(connection.receiver, kTakeBytes, warm_up, measure);
  stop = true;
  sender.join();
  const auto rate = NominalRate(emulator.topology(), *path);
  const double share = TcpPayloadShare(emulator.topology().mtu, IpHeaderBytes(ip));
  return Judge({rate ? rate->value * share : 0}, received, name);
}

absl::StatusOr<RateSample> ProbeUdpRate(const Emulator& emulator, int from, int to,
                                        absl::Duration warm_up, absl::Duration measure,
                                        IpVersion ip) {
  ASSIGN_OR_RETURN(auto path, ProbedPath(emulator, from, to));
  const auto rate = NominalRate(emulator.topology(), *path);
  if (!rate) {
    return absl::FailedPreconditionError(
        fmt::format("probe: nothing limits the rate from node {} to {}", from, to));
  }
  SocketAddress address, own;
  ASSIGN_OR_RETURN(auto receiver, BoundSocket(emulator, to, ip, SOCK_DGRAM, address));
  ASSIGN_OR_RETURN(auto sender, BoundSocket(emulator, from, ip, SOCK_DGRAM, own));
  WidenReceiveBuffer(receiver);
  const int mtu = emulator.topology().mtu;
  const int payload_bytes = UdpPayloadBytes(mtu, ip);
  std::atomic<bool> stop = false;
  std::thread sending([&] {
    SendDatagramsUntil(sender, address, static_cast<size_t>(payload_bytes),
                       OfferedRate(*path, *rate, mtu), mtu, stop);
  });
  const Received received = Count(receiver, 0, path->delay + warm_up, measure);
  stop = true;
  sending.join();
  const double share = static_cast<double>(payload_bytes) / static_cast<double>(FrameBytes(mtu));
  return Judge({rate->value * share}, received, "udp");
}

}  // namespace longhaul
