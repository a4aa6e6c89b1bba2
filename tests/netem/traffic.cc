#include "tests/netem/traffic.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "netem/kernel/netns.h"

namespace longhaul {
namespace {

constexpr int kTimeoutMs = 20'000;

sockaddr_in AddressOf(const std::string& ip, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = inet_addr(ip.c_str());
  return address;
}

absl::StatusOr<Fd> BoundTo(const Emulator& emulator, int node, int type, sockaddr_in& address) {
  auto fd = OpenSocketIn(emulator.node_netns_fd(node), AF_INET, type, 0);
  if (!fd.ok()) return fd;
  address = AddressOf(NodeAddress(node), 0);
  socklen_t size = sizeof address;
  if (bind(fd->get(), reinterpret_cast<sockaddr*>(&address), size) != 0) {
    return ErrnoStatus("test: bind", errno);
  }
  getsockname(fd->get(), reinterpret_cast<sockaddr*>(&address), &size);
  return fd;
}

bool Readable(const Fd& fd, int timeout_ms) {
  pollfd ready{fd.get(), POLLIN, 0};
  return poll(&ready, 1, timeout_ms) > 0;
}

// True when all `bytes` came. The kernel throws them away (MSG_TRUNC) and nothing is written, but
// ThreadSanitizer takes the buffer for written, so each thread has its own.
bool ReceiveAll(const Fd& fd, int64_t bytes) {
  const auto nowhere = std::make_unique_for_overwrite<char[]>(static_cast<size_t>(bytes));
  while (bytes > 0) {
    if (!Readable(fd, kTimeoutMs)) return false;
    const ssize_t got = recv(fd.get(), nowhere.get(), static_cast<size_t>(bytes), MSG_TRUNC);
    if (got <= 0) return false;
    bytes -= got;
  }
  return true;
}

bool SendAll(const Fd& fd, const std::vector<char>& bytes) {
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t n = send(fd.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return false;
    sent += static_cast<size_t>(n);
  }
  return true;
}

}  // namespace

absl::StatusOr<absl::Duration> MessageTime(const Emulator& emulator, int from, int to,
                                           int64_t bytes, int rounds,
                                           const std::string& congestion_control,
                                           int warm_up_rounds) {
  sockaddr_in own, address;
  auto sender = BoundTo(emulator, from, SOCK_STREAM, own);
  auto listener = BoundTo(emulator, to, SOCK_STREAM, address);
  if (!sender.ok()) return sender.status();
  if (!listener.ok()) return listener.status();
  if (setsockopt(sender->get(), IPPROTO_TCP, TCP_CONGESTION, congestion_control.data(),
                 congestion_control.size()) != 0) {
    return ErrnoStatus("test: choose " + congestion_control, errno);
  }
  listen(listener->get(), 1);
  if (connect(sender->get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return ErrnoStatus("test: connect", errno);
  }
  const Fd receiver(accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
  const int on = 1;
  setsockopt(sender->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  std::atomic<bool> failed = false;
  std::thread replying([&] {
    for (int i = 0; i < rounds + warm_up_rounds && !failed; ++i) {
      failed = !ReceiveAll(receiver, bytes) || send(receiver.get(), "x", 1, MSG_NOSIGNAL) != 1;
    }
  });
  const std::vector<char> message(static_cast<size_t>(bytes), 'x');
  absl::Duration best = absl::InfiniteDuration();
  for (int i = 0; i < rounds + warm_up_rounds && !failed; ++i) {
    absl::SleepFor(absl::Milliseconds(500));
    const absl::Time start = MonotonicNow();
    if (!SendAll(*sender, message) || !ReceiveAll(*sender, 1)) failed = true;
    if (i >= warm_up_rounds) best = std::min(best, MonotonicNow() - start);
  }
  if (failed) shutdown(sender->get(), SHUT_RDWR);
  replying.join();
  if (failed) return absl::InternalError("test: a message was not answered");
  return best;
}

absl::Status SendSpoofed(const Emulator& emulator, int from, int to, const std::string& source) {
  auto fd = OpenSocketIn(emulator.node_netns_fd(from), AF_INET, SOCK_RAW, IPPROTO_RAW);
  if (!fd.ok()) return fd.status();
  char packet[28] = {};
  iphdr ip{};
  ip.version = 4;
  ip.ihl = 5;
  ip.ttl = 64;
  ip.protocol = IPPROTO_UDP;
  ip.saddr = inet_addr(source.c_str());
  ip.daddr = inet_addr(NodeAddress(to).c_str());
  memcpy(packet, &ip, sizeof ip);
  const sockaddr_in address = AddressOf(NodeAddress(to), 0);
  if (sendto(fd->get(), packet, sizeof packet, 0, reinterpret_cast<const sockaddr*>(&address),
             sizeof address) < 0) {
    return ErrnoStatus("test: send a spoofed packet", errno);
  }
  return absl::OkStatus();
}

}  // namespace longhaul
