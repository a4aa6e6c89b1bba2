#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "netem/emulator.h"

namespace longhaul {

// Sends `count` datagrams of a full frame at `rate` and waits until the path is empty. Returns how
// many arrived.
absl::StatusOr<int64_t> SendDatagrams(const Emulator& emulator, int from, int to, int64_t count,
                                      BitsPerSecond rate);

// Messages of `bytes` with a reply of one byte on one warm connection, idle before each. Returns
// the shortest time of `rounds`, after two that warm up.
absl::StatusOr<absl::Duration> MessageTime(const Emulator& emulator, int from, int to,
                                           int64_t bytes, int rounds,
                                           const std::string& congestion_control);

// One UDP datagram from `from` to `to` whose IPv4 source address is `source`.
absl::Status SendSpoofed(const Emulator& emulator, int from, int to, const std::string& source);

}  // namespace longhaul
