#include "pp_group/engines/aten/device.h"

#include <cstdlib>
#include <optional>

#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "absl/strings/str_cat.h"
#include "pp_group/device_name.h"

namespace longhaul {

absl::Status CheckDevice(const ComputeSpec& compute) {
  if (compute.dtype != "float32" && compute.dtype != "bfloat16") {
    return absl::InvalidArgumentError(
        absl::StrCat("dtype '", compute.dtype, "', want float32 or bfloat16"));
  }
  if (compute.device == "cpu") return absl::OkStatus();
  if (absl::Status s = CheckDeviceName(compute.device); !s.ok()) return s;
  return CheckGpuIsThere(compute.device, GpuCount());
}

int GpuCount() { return at::globalContext().hasCUDA() ? static_cast<int>(at::getNumGPUs()) : 0; }

GpuMemory MemoryOfGpu(int gpu) {
  const auto [free, total] =
      at::getDeviceAllocator(at::kCUDA)->getMemoryInfo(static_cast<at::DeviceIndex>(gpu));
  return {static_cast<int64_t>(free), static_cast<int64_t>(total)};
}

at::Device DeviceOf(const ComputeSpec& compute) {
  // Products of 16-bit tensors are summed in f32: torch's default lets cuBLAS add the partial sums of
  // a long product in 16 bits.
  at::globalContext().setAllowBF16ReductionCuBLAS(false);
  at::globalContext().setAllowFP16ReductionCuBLAS(false);
  if (compute.device == "cpu") return at::kCPU;
  const std::optional<int> gpu = GpuOfRank(compute.device, 0, 1);
  TORCH_CHECK(gpu && compute.device != kGpuOfRank, "device '", compute.device,
              "' is not of one rank");
  RequireDeterminism(compute.attention);
  const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(*gpu));
  // What asks for no device, as page-locked memory does, takes no context on another GPU.
  c10::impl::VirtualGuardImpl(at::kCUDA).setDevice(device);
  return device;
}

at::ScalarType DtypeOf(const ComputeSpec& compute) {
  return compute.dtype == "bfloat16" ? at::kBFloat16 : at::kFloat;
}

void RequireDeterminism(std::string_view attention) {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*replace=*/1);
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(false);
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
  context.setFloat32MatmulPrecision("highest");
  context.setAllowTF32CuDNN(false);
  context.setSDPUseMath(true);
  // cuDNN's is refused by the strict form.
  context.setSDPUseFlash(attention == "fused");
  context.setSDPUseMemEfficient(attention == "fused");
  context.setSDPUseCuDNN(false);
}

}  // namespace longhaul
