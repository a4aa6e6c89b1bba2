#include <fmt/format.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include "base/status_macros.h"
#include "netem/kernel/netns.h"
#include "netem/kernel/posix.h"
#include "netem/nodes/addressing.h"
#include "netem/probes/probe.h"
#include "netem/probes/probe_sockets.h"
#include "netem/topology/access_lines.h"

namespace longhaul {
namespace {

constexpr size_t kPayloadBytes = 56;                        // as ping sends by default
constexpr absl::Duration kGrace = absl::Milliseconds(500);  // for late replies

int64_t RealTimeNs() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

uint16_t Checksum(std::span<const std::byte> bytes) {
  uint32_t sum = 0;
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    uint16_t word;
    memcpy(&word, &bytes[i], sizeof word);
    sum += word;
  }
  sum = (sum >> 16) + (sum & 0xffff);
  return static_cast<uint16_t>(~(sum + (sum >> 16)));
}

// One prober: sends echoes and gathers the times of the replies.
class Echo {
 public:
  Echo(Fd socket, int to, int count, IpVersion ip)
      : socket_(std::move(socket)),
        ip_(ip),
        address_(AddressOfNode(to, ip)),
        sent_ns_(count, 0),
        rtt_ns_(count, -1) {
    static std::atomic<uint16_t> next_id{static_cast<uint16_t>(getpid())};
    id_ = next_id++;
  }

  absl::Status Send(int sequence) {
    std::array<std::byte, sizeof(icmphdr) + kPayloadBytes> packet{};
    icmphdr header{};
    header.type = ip_ == IpVersion::kIpv4 ? ICMP_ECHO : ICMP6_ECHO_REQUEST;
    header.un.echo.id = htons(id_);
    header.un.echo.sequence = htons(static_cast<uint16_t>(sequence));
    memcpy(packet.data(), &header, sizeof header);
    if (ip_ == IpVersion::kIpv4) header.checksum = Checksum(packet);  // else the kernel does it
    memcpy(packet.data(), &header, sizeof header);
    sent_ns_[sequence] = RealTimeNs();
    if (sendto(socket_.get(), packet.data(), packet.size(), 0, address_.get(), address_.bytes) <
        0) {
      return ErrnoStatus("send an ICMP echo", errno);
    }
    return absl::OkStatus();
  }

  // Takes replies until `until`, or until `wanted` have come in all.
  void Receive(absl::Time until, int wanted) {
    while (received_ < wanted) {
      const int64_t left_ns = absl::ToInt64Nanoseconds(until - MonotonicNow());
      if (left_ns <= 0) return;
      pollfd ready{socket_.get(), POLLIN, 0};
      const timespec timeout{left_ns / 1'000'000'000, left_ns % 1'000'000'000};
      if (ppoll(&ready, 1, &timeout, nullptr) > 0) ReceiveOne();
    }
  }

  int received() const { return received_; }
  std::vector<int64_t> SortedRtts() const {
    std::vector<int64_t> rtts;
    for (int64_t rtt : rtt_ns_) {
      if (rtt >= 0) rtts.push_back(rtt);
    }
    std::sort(rtts.begin(), rtts.end());
    return rtts;
  }

 private:
  void ReceiveOne() {
    std::array<std::byte, 2048> packet;
    iovec part{packet.data(), packet.size()};
    alignas(cmsghdr) std::array<std::byte, 128> control;
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t bytes = recvmsg(socket_.get(), &message, MSG_DONTWAIT);
    iphdr ip{};
    icmphdr header;
    if (bytes < static_cast<ssize_t>(sizeof ip + sizeof header)) return;
    // A raw socket of IPv6 leaves out the header of IP.
    if (ip_ == IpVersion::kIpv4) memcpy(&ip, packet.data(), sizeof ip);
    memcpy(&header, packet.data() + ip.ihl * 4, sizeof header);
    const int sequence = ntohs(header.un.echo.sequence);
    const int reply = ip_ == IpVersion::kIpv4 ? ICMP_ECHOREPLY : ICMP6_ECHO_REPLY;
    if (header.type != reply || ntohs(header.un.echo.id) != id_ ||
        sequence >= static_cast<int>(rtt_ns_.size()) || rtt_ns_[sequence] >= 0) {
      return;
    }
    int64_t at_ns = RealTimeNs();
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
      if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS) continue;
      timespec stamp;
      memcpy(&stamp, CMSG_DATA(c), sizeof stamp);
      at_ns = stamp.tv_sec * 1'000'000'000 + stamp.tv_nsec;
    }
    rtt_ns_[sequence] = std::max<int64_t>(0, at_ns - sent_ns_[sequence]);
    ++received_;
  }

  Fd socket_;
  IpVersion ip_;
  uint16_t id_;
  SocketAddress address_;
  std::vector<int64_t> sent_ns_;
  std::vector<int64_t> rtt_ns_;  // -1: no reply yet
  int received_ = 0;
};

absl::Duration AddTransmission(const std::optional<BitsPerSecond>& rate, int frame_bytes) {
  return rate ? absl::Seconds(frame_bytes * 8 / rate->value) : absl::ZeroDuration();
}

absl::Duration OneWay(const Topology& topology, const PathSpec& path, int frame_bytes) {
  absl::Duration time = path.delay + AddTransmission(path.rate, frame_bytes);
  if (const AccessSpec* line = UplinkOf(topology, path); line != nullptr) {
    time += AddTransmission(line->up, frame_bytes);
  }
  if (const AccessSpec* line = DownlinkOf(topology, path); line != nullptr) {
    time += AddTransmission(line->down, frame_bytes);
  }
  return time;
}

}  // namespace

absl::Duration NominalEchoRtt(const Topology& topology, const PathSpec& path, int frame_bytes) {
  const PathSpec* back = FindPath(topology, path.to, path.from);
  return OneWay(topology, path, frame_bytes) +
         OneWay(topology, back == nullptr ? path : *back, frame_bytes);
}

absl::StatusOr<RttSample> ProbeRtt(const Emulator& emulator, int from, int to, int count,
                                   absl::Duration interval, IpVersion ip) {
  const PathSpec* path = FindPath(emulator.topology(), from, to);
  if (path == nullptr || FindPath(emulator.topology(), to, from) == nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("probe: nodes {} and {} have no path in both directions", from, to));
  }
  if (count < 1) return absl::InvalidArgumentError("probe: want at least one echo");
  ASSIGN_OR_RETURN(
      auto socket,
      ip == IpVersion::kIpv4
          ? OpenSocketIn(emulator.node_netns_fd(from), AF_INET, SOCK_RAW, IPPROTO_ICMP)
          : OpenSocketIn(emulator.node_netns_fd(from), AF_INET6, SOCK_RAW, IPPROTO_ICMPV6));
  const int on = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);

  Echo echo(std::move(socket), to, count, ip);
  RttSample sample;
  sample.nominal = NominalEchoRtt(emulator.topology(), *path, EchoFrameBytes(ip));
  for (int i = 0; i < count; ++i) {
    RETURN_IF_ERROR(echo.Send(i));
    if (i + 1 < count) echo.Receive(MonotonicNow() + interval, count);
  }
  echo.Receive(MonotonicNow() + sample.nominal + kGrace, count);
  sample.sent = count;
  sample.received = echo.received();
  const std::vector<int64_t> rtts = echo.SortedRtts();
  if (rtts.empty()) return sample;
  const auto at = [&](double share) {  // nearest rank
    const double rank = std::ceil(share * static_cast<double>(rtts.size()));
    return absl::Nanoseconds(rtts[static_cast<size_t>(std::max(1.0, rank)) - 1]);
  };
  sample.min = at(0);
  sample.median = at(0.5);
  sample.p99 = at(0.99);
  sample.max = at(1);
  sample.mean = absl::Nanoseconds(std::accumulate(rtts.begin(), rtts.end(), 0.0) /
                                  static_cast<double>(rtts.size()));
  double squares = 0;
  for (int64_t rtt : rtts) {
    const double off = static_cast<double>(rtt) - absl::ToDoubleNanoseconds(sample.mean);
    squares += off * off;
  }
  sample.deviation = absl::Nanoseconds(std::sqrt(squares / static_cast<double>(rtts.size())));
  return sample;
}

}  // namespace longhaul
