#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "netem/emulator.h"

namespace longhaul {

// Messages of `bytes` with a reply of one byte on one warm connection, idle before each. Returns
// the shortest time of `rounds`, after so many that warm up.
absl::StatusOr<absl::Duration> MessageTime(const Emulator& emulator, int from, int to,
                                           int64_t bytes, int rounds,
                                           const std::string& congestion_control,
                                           int warm_up_rounds = 2);

// One UDP datagram from `from` to `to` whose IPv4 source address is `source`.
absl::Status SendSpoofed(const Emulator& emulator, int from, int to, const std::string& source);

}  // namespace longhaul
