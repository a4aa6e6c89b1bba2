#include <cstdlib>

#include <c10/core/AllocatorConfig.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <torch/version.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "pp_group/c10d_status.h"
#include "pp_group/device_check.h"
#include "pp_group/memory/memory_limit.h"

namespace longhaul {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Where both are set, torch takes some words from one and some from the other.
std::string UserSettings() {
  const std::string cuda = Variable("PYTORCH_CUDA_ALLOC_CONF"),
                    all = Variable("PYTORCH_ALLOC_CONF");
  return absl::StrCat(cuda, cuda.empty() || all.empty() ? "" : ",", all);
}

}  // namespace

absl::StatusOr<std::string> LimitGpuMemory(int gpu, int64_t bytes) {
  // The words of a device are there once its library is.
  const auto& known = c10::CachingAllocator::AcceleratorAllocatorConfig::getKeys();
  const MemoryLimit limit =
      MemoryLimitOf(bytes, MemoryOfGpu(gpu).total_bytes,
                    {.torch = TORCH_VERSION,
                     .knows_fraction = known.count("per_process_memory_fraction") != 0,
                     .settings = UserSettings()});
  if (limit.settings.empty()) return limit.said;
  RETURN_IF_ERROR(
      StatusFromTorch(absl::StrCat("limit the memory of cuda:", gpu, " by '", limit.settings, "'"),
                      [&] { c10::CachingAllocator::setAllocatorSettings(limit.settings); }));
  return limit.said;
}

int64_t PeakGpuBytes(int gpu) {
  const auto stats =
      at::getDeviceAllocator(at::kCUDA)->getDeviceStats(static_cast<at::DeviceIndex>(gpu));
  return stats.reserved_bytes[0].peak;  // of all pools together
}

}  // namespace longhaul
