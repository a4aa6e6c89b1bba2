#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "netem/emulator.h"
#include "netem/kernel/posix.h"

namespace longhaul {

// What the probes share.
constexpr int IpHeaderBytes(IpVersion ip) { return ip == IpVersion::kIpv4 ? 20 : 40; }
// Of the datagram that fills a frame.
constexpr int UdpPayloadBytes(int mtu, IpVersion ip) { return mtu - IpHeaderBytes(ip) - 8; }

// Of either version.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};
// A node's, port 0.
SocketAddress AddressOfNode(int node, IpVersion ip);

// poll() for one of POLLIN, POLLOUT; false on timeout.
bool WaitFor(const Fd& fd, short what, absl::Duration timeout);

// A non-blocking socket in `node`'s namespace bound to a free port; `address` gets it.
absl::StatusOr<Fd> BoundSocket(const Emulator& emulator, int node, IpVersion ip, int type,
                               SocketAddress& address);

// A receiver that is scheduled late must not lose any datagram.
void WidenReceiveBuffer(const Fd& fd);

// InvalidArgument: no such path.
absl::StatusOr<const PathSpec*> ProbedPath(const Emulator& emulator, int from, int to);

}  // namespace longhaul
