#pragma once

#include <string_view>

#include "compressors/cuda/cuda_codec.h"

// What the families share about slots and device errors.
namespace longhaul {

// Where one thing ends and the next may begin, for any kernel.
constexpr size_t AlignUp256(size_t bytes) { return (bytes + 255) & ~size_t{255}; }

// InvalidArgument when the slot is too small.
absl::Status CheckSlot(std::string_view name, SlotBytes needs, const DeviceSlot& slot);

// Internal, with the device's words, unless `error` is 0.
absl::Status DeviceStatus(std::string_view name, const DeviceApi& device, int error);

// The fault of a DeviceReport that was copied to `host`.
uint64_t ReportedFault(const std::byte* host);

}  // namespace longhaul
