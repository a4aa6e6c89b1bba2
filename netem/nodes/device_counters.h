#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace longhaul {

// What a device of the calling thread's network namespace counted since it was made, as seen from
// the namespace: bytes of whole frames, Ethernet headers included.
struct DeviceCounters {
  int64_t received_bytes = 0, received_packets = 0;
  int64_t sent_bytes = 0, sent_packets = 0;
  int64_t sent_drops = 0;  // given up before anybody took them
};
// NotFound: no such device.
absl::StatusOr<DeviceCounters> ReadDeviceCounters(const std::string& device);

}  // namespace longhaul
