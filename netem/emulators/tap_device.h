#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "netem/kernel/posix.h"

namespace longhaul {

// What the kernel may leave to us on frames that it hands out.
enum class TapFrames {
  kTso,  // TCP frames of up to 64 kB, checksum open
  kMtu,  // cut to the MTU by the kernel, checksum open
  // Whole frames as on a wire, without a vnet header before them; for good.
  kPlain,
};

// Creates a TAP device, with vnet headers but for kPlain, in the calling thread's network namespace; it lives as
// long as the descriptor, which is non-blocking. PermissionDenied, FailedPrecondition: what is
// missing (/dev/net/tun, CAP_NET_ADMIN) and what to do.
absl::StatusOr<Fd> OpenTap(const std::string& device, TapFrames frames);

// May be called at any time, also while frames flow.
absl::Status SetTapFrames(int tap_fd, TapFrames frames);

// OK when /dev/net/tun can be opened by this process.
absl::Status CheckTunDevice();

}  // namespace longhaul
