#include "netem/probes/probe_sockets.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <cerrno>

#include "netem/kernel/netns.h"
#include "netem/nodes/addressing.h"

namespace longhaul {

bool WaitFor(const Fd& fd, short what, absl::Duration timeout) {
  pollfd ready{fd.get(), what, 0};
  const timespec limit = absl::ToTimespec(std::max(timeout, absl::ZeroDuration()));
  return ppoll(&ready, 1, &limit, nullptr) > 0;
}

absl::StatusOr<Fd> BoundSocket(const Emulator& emulator, int node, int type, sockaddr_in& address) {
  auto fd = OpenSocketIn(emulator.node_netns_fd(node), AF_INET, type | SOCK_NONBLOCK, 0);
  if (!fd.ok()) return fd;
  address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(NodeAddressValue(node));
  socklen_t size = sizeof address;
  if (bind(fd->get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(fd->get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return ErrnoStatus(fmt::format("probe: bind to {}", NodeAddress(node)), errno);
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
