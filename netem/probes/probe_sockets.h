#pragma once

#include <netinet/in.h>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "netem/emulator.h"
#include "netem/kernel/posix.h"

namespace longhaul {

// What the probes share.
constexpr int kUdpIpHeaderBytes = 28;

// poll() for one of POLLIN, POLLOUT; false on timeout.
bool WaitFor(const Fd& fd, short what, absl::Duration timeout);

// A non-blocking socket in `node`'s namespace bound to a free port; `address` gets it.
absl::StatusOr<Fd> BoundSocket(const Emulator& emulator, int node, int type, sockaddr_in& address);

// A receiver that is scheduled late must not lose any datagram.
void WidenReceiveBuffer(const Fd& fd);

// InvalidArgument: no such path.
absl::StatusOr<const PathSpec*> ProbedPath(const Emulator& emulator, int from, int to);

}  // namespace longhaul
