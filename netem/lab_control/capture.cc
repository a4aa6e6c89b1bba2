#include "netem/lab_control/capture.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/status_macros.h"
#include "netem/nodes/addressing.h"

namespace longhaul {
namespace {

constexpr uint32_t kNanosecondMagic = 0xa1b23c4d;
constexpr uint32_t kEthernet = 1;

absl::Status WriteAll(const Fd& file, const void* bytes, size_t size) {
  const char* next = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t n = write(file.get(), next, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return ErrnoStatus("capture: write the file", errno);
    next += n;
    size -= static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::Status WriteFileHeader(const Fd& file, uint32_t snap_bytes) {
  const struct {
    uint32_t magic = kNanosecondMagic;
    uint16_t major = 2, minor = 4;
    uint32_t zone = 0, accuracy = 0, snap = 0, link = kEthernet;
  } fixed;
  auto header = fixed;
  header.snap = snap_bytes;
  static_assert(sizeof header == 24);
  return WriteAll(file, &header, sizeof header);
}

// Where a version of IP has what is asked for, from the frame's beginning.
struct IpPlaces {
  uint16_t ether_type;
  uint32_t protocol;
  uint32_t source, destination;  // of the IPv4 address, or what stands for it in a node's IPv6 one
  uint32_t network_bytes;        // of kNodePrefix6 before it
};
constexpr IpPlaces kIpv4Places = {ETH_P_IP, 23, 26, 30, 0};
constexpr IpPlaces kIpv6Places = {ETH_P_IPV6, 20, 34, 50, kNodePrefix6.size()};

// A program of the kernel's packet filter. A test whose answer is no leads to the next version, and
// in the end to nothing.
class Filter {
 public:
  // From `from` to `to`, both in host byte order, and back where both directions are wanted; of one
  // protocol and port where they are given.
  void Take(const IpPlaces& at, const CaptureSpec& spec, uint32_t from, uint32_t to) {
    constexpr uint32_t kAll = 1 << 18;
    Load(BPF_H, 12);
    Want(at.ether_type);
    for (uint32_t address : {at.source, at.destination}) {
      for (uint32_t i = 0; i < at.network_bytes; i += 4) {
        Load(BPF_W, address - at.network_bytes + i);
        uint32_t word = 0;
        memcpy(&word, &kNodePrefix6[i], sizeof word);
        Want(ntohl(word));
      }
    }
    Load(BPF_W, at.source);
    if (spec.both) {                                       // the other direction, or else this one
      constexpr uint8_t kToThisOne = 3, kPastThisOne = 4;  // instructions ahead
      Put(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, to, 0, kToThisOne));
      Load(BPF_W, at.destination);
      Put(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, from, kPastThisOne, 0));
      Put(BPF_STMT(BPF_RET | BPF_K, 0));
    }
    Want(from);
    Load(BPF_W, at.destination);
    Want(to);
    const bool is_ipv6 = at.ether_type == ETH_P_IPV6;
    if (spec.protocol != 0) {
      Load(BPF_B, at.protocol);
      Want(is_ipv6 && spec.protocol == IPPROTO_ICMP ? static_cast<uint32_t>(IPPROTO_ICMPV6)
                                                    : static_cast<uint32_t>(spec.protocol));
    }
    if (spec.port != 0) TakePort(at, spec);
    Put(BPF_STMT(BPF_RET | BPF_K, kAll));
    for (const size_t test : tests_) {
      program_[test].jf = static_cast<uint8_t>(program_.size() - 1 - test);
    }
    tests_.clear();
  }

  absl::Status Attach(const Fd& socket) {
    Put(BPF_STMT(BPF_RET | BPF_K, 0));
    const sock_fprog attached{static_cast<unsigned short>(program_.size()), program_.data()};
    if (setsockopt(socket.get(), SOL_SOCKET, SO_ATTACH_FILTER, &attached, sizeof attached) == 0) {
      return absl::OkStatus();
    }
    return ErrnoStatus("capture: attach a filter", errno);
  }

 private:
  void TakePort(const IpPlaces& at, const CaptureSpec& spec) {
    constexpr uint32_t kIpAt = 14, kFragmentAt = 20, kFragmentOffset = 0x1fff, kIpv6Bytes = 40;
    if (spec.protocol == 0) {  // TCP, or else UDP
      Load(BPF_B, at.protocol);
      Put(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 1, 0));
      Want(IPPROTO_UDP);
    }
    if (at.ether_type == ETH_P_IP) {
      Load(BPF_H, kFragmentAt);  // later fragments have no ports
      Put(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, kFragmentOffset));
      Want(0);
      Put(BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, kIpAt));
    } else {
      Put(BPF_STMT(BPF_LDX | BPF_W | BPF_IMM, kIpv6Bytes));
    }
    Put(BPF_STMT(BPF_LD | BPF_H | BPF_IND, kIpAt));
    Put(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, spec.port, 2, 0));
    Put(BPF_STMT(BPF_LD | BPF_H | BPF_IND, kIpAt + 2));
    Want(spec.port);
  }
  void Put(sock_filter instruction) { program_.push_back(instruction); }
  void Load(uint16_t size, uint32_t at) {
    Put(BPF_STMT(static_cast<uint16_t>(BPF_LD | size | BPF_ABS), at));
  }
  void Want(uint32_t value) {
    tests_.push_back(program_.size());
    Put(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 0));
  }

  std::vector<sock_filter> program_;
  std::vector<size_t> tests_;  // whose no has no place to go to yet
};

absl::StatusOr<Fd> OpenPacketSocket(const CaptureSpec& spec) {
  // Protocol 0: nothing comes before the filter stands.
  Fd socket(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.ok()) return ErrnoStatus("capture: open a packet socket", errno);
  const int on = 1, buffer_bytes = 64 << 20;
  setsockopt(socket.get(), SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUFFORCE, &buffer_bytes, sizeof buffer_bytes);
  in_addr from{}, to{};
  if (inet_pton(AF_INET, spec.from.c_str(), &from) != 1 ||
      inet_pton(AF_INET, spec.to.c_str(), &to) != 1) {
    return absl::InvalidArgumentError("capture: an address is no IPv4 address");
  }
  Filter filter;
  for (const IpPlaces& at : {kIpv4Places, kIpv6Places}) {
    filter.Take(at, spec, ntohl(from.s_addr), ntohl(to.s_addr));
  }
  RETURN_IF_ERROR(filter.Attach(socket));
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);  // what leaves, too
  address.sll_ifindex = static_cast<int>(if_nametoindex(spec.device.c_str()));
  if (address.sll_ifindex == 0 ||
      bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return ErrnoStatus("capture: bind to " + spec.device, errno);
  }
  return socket;
}

// One packet; false when none is there.
absl::StatusOr<bool> TakePacket(const Fd& socket, std::vector<char>& buffer, const Fd& file) {
  iovec part{buffer.data(), buffer.size()};
  alignas(cmsghdr) std::array<char, 128> control;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t bytes = recvmsg(socket.get(), &message, MSG_TRUNC);
  if (bytes < 0) {
    if (errno == EAGAIN || errno == EINTR) return false;
    return ErrnoStatus("capture: read a packet", errno);
  }
  timespec stamp{};
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
      memcpy(&stamp, CMSG_DATA(c), sizeof stamp);
    }
  }
  const auto kept = static_cast<uint32_t>(std::min<size_t>(bytes, buffer.size()));
  const uint32_t record[] = {static_cast<uint32_t>(stamp.tv_sec),
                             static_cast<uint32_t>(stamp.tv_nsec), kept,
                             static_cast<uint32_t>(bytes)};
  auto s = WriteAll(file, record, sizeof record);
  if (s.ok()) s = WriteAll(file, buffer.data(), kept);
  if (!s.ok()) return s;
  return true;
}

}  // namespace

absl::StatusOr<Captured> Capture(const CaptureSpec& spec, const Fd& file) {
  ASSIGN_OR_RETURN(auto socket, OpenPacketSocket(spec));
  RETURN_IF_ERROR(WriteFileHeader(file, spec.snap_bytes));
  std::vector<char> buffer(spec.snap_bytes);
  Captured captured;
  const absl::Time end = MonotonicNow() + spec.max_time;
  const auto done = [&] { return spec.max_packets > 0 && captured.packets >= spec.max_packets; };
  while (!done() && MonotonicNow() < end) {
    pollfd ready[] = {{socket.get(), POLLIN, 0}, {spec.stop_fd, POLLIN, 0}};
    const timespec limit = absl::ToTimespec(std::min(end - MonotonicNow(), absl::Seconds(1)));
    if (ppoll(ready, 2, &limit, nullptr) <= 0) continue;
    if (ready[1].revents != 0) break;
    for (bool more = true; more && !done();) {
      ASSIGN_OR_RETURN(auto taken, TakePacket(socket, buffer, file));
      more = taken;
      captured.packets += more ? 1 : 0;
    }
  }
  tpacket_stats stats{};
  socklen_t size = sizeof stats;
  if (getsockopt(socket.get(), SOL_PACKET, PACKET_STATISTICS, &stats, &size) == 0) {
    captured.lost = stats.tp_drops;
  }
  return captured;
}

}  // namespace longhaul
