#include "netem/probes/probe_sockets.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "netem/kernel/netns.h"
#include "netem/nodes/addressing.h"

namespace longhaul {

bool WaitFor(const Fd& fd, short what, absl::Duration timeout) {
  pollfd ready{fd.get(), what, 0};
  const timespec limit = absl::ToTimespec(std::max(timeout, absl::ZeroDuration()));
  return ppoll(&ready, 1, &limit, nullptr) > 0;
}

SocketAddress AddressOfNode(int node, IpVersion ip) {
  SocketAddress address;
  if (ip == IpVersion::kIpv4) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_addr.s_addr = htonl(NodeAddressValue(node));
    memcpy(&address.storage, &v4, address.bytes = sizeof v4);
  } else {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    inet_pton(AF_INET6, NodeAddress6(node).c_str(), &v6.sin6_addr);
    memcpy(&address.storage, &v6, address.bytes = sizeof v6);
  }
  return address;
}

absl::StatusOr<Fd> BoundSocket(const Emulator& emulator, int node, IpVersion ip, int type,
                               SocketAddress& address) {
  address = AddressOfNode(node, ip);
  auto fd = OpenSocketIn(emulator.node_netns_fd(node), address.storage.ss_family,
                         type | SOCK_NONBLOCK, 0);
  if (!fd.ok()) return fd;
  if (bind(fd->get(), address.get(), address.bytes) != 0 ||
      getsockname(fd->get(), address.get(), &address.bytes) != 0) {
    return ErrnoStatus(fmt::format("probe: bind to {}",
                                   ip == IpVersion::kIpv4 ? NodeAddress(node) : NodeAddress6(node)),
                       errno);
  }
  return fd;
}

void WidenReceiveBuffer(const Fd& fd) {
  const int buffer_bytes = 64 << 20;
  // Without root up to net.core.rmem_max only.
  if (setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, &buffer_bytes, sizeof buffer_bytes) != 0) {
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
  }
}

absl::StatusOr<const PathSpec*> ProbedPath(const Emulator& emulator, int from, int to) {
  const PathSpec* path = FindPath(emulator.topology(), from, to);
  if (path != nullptr) return path;
  return absl::InvalidArgumentError(fmt::format("probe: no path from node {} to {}", from, to));
}

}  // namespace longhaul
