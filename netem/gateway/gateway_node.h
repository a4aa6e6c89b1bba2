#pragma once

#include "absl/status/statusor.h"
#include "netem/kernel/posix.h"

namespace longhaul {

// Inside a node's network namespace: gw0, a TAP device that lives as long as the descriptor, which
// is non-blocking. Routes: what may be a node's goes through net0 or nowhere, also while net0 is
// down and for who asks for gw0 by name; all else leaves through gw0, from the node's own address.
absl::StatusOr<Fd> BuildGatewayDevice(int node);

}  // namespace longhaul
