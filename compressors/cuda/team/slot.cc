#include "compressors/cuda/team/slot.h"

#include <fmt/format.h>

#include <cstring>

namespace longhaul {

absl::Status CheckSlot(std::string_view name, SlotBytes needs, const DeviceSlot& slot) {
  if (slot.host_bytes >= needs.host && slot.device_bytes >= needs.device) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: a slot of {} bytes on the host and {} on the device, needs {} and {}", name,
                  slot.host_bytes, slot.device_bytes, needs.host, needs.device));
}

absl::Status DeviceStatus(std::string_view name, const DeviceApi& device, int error) {
  if (error == 0) return absl::OkStatus();
  return absl::InternalError(fmt::format("{} on a device: {}", name, device.error(error)));
}

uint64_t ReportedFault(const std::byte* host) {
  DeviceReport report;
  std::memcpy(&report, host, sizeof(report));
  return report.fault;
}

}  // namespace longhaul
