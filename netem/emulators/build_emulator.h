#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "netem/emulator.h"

namespace longhaul {

// The emulator in the kernel (sch_netem, sch_htb, cls_u32, veth). Needs CAP_NET_ADMIN in the
// caller's namespaces. `topology` is valid.
absl::StatusOr<std::unique_ptr<Emulator>> BuildNetemEmulator(const Topology& topology,
                                                             const EmulatorOptions& options);

// The emulator in user space, for kernels without sch_netem. Needs /dev/net/tun and CAP_NET_ADMIN
// in the caller's namespaces. `topology` is valid.
absl::StatusOr<std::unique_ptr<Emulator>> BuildTapEmulator(const Topology& topology,
                                                           const EmulatorOptions& options);

}  // namespace longhaul
