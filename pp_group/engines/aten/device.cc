#include "pp_group/engines/aten/device.h"

#include <cstdlib>
#include <string>

#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace longhaul {
namespace {

// -1: not the name of a GPU.
int GpuIndex(const std::string& device) {
  if (device == "cuda") return 0;
  int index = -1;
  const std::string kPrefix = "cuda:";
  const bool numbered = device.starts_with(kPrefix) && device.size() <= kPrefix.size() + 3 &&
                        absl::SimpleAtoi(device.substr(kPrefix.size()), &index);
  return numbered && index >= 0 && device == absl::StrCat(kPrefix, index) ? index : -1;
}

}  // namespace

absl::Status CheckDevice(const ComputeSpec& compute) {
  if (compute.dtype != "float32" && compute.dtype != "bfloat16") {
    return absl::InvalidArgumentError(
        absl::StrCat("dtype '", compute.dtype, "', want float32 or bfloat16"));
  }
  if (compute.device == "cpu") return absl::OkStatus();
  const int index = GpuIndex(compute.device);
  if (index < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("device '", compute.device, "', want cpu, cuda or cuda:N"));
  }
  if (!at::globalContext().hasCUDA()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "device '", compute.device, "': no GPU that this torch can use; want cpu, or a ",
        "CUDA build of torch and a driver that it finds"));
  }
  const auto count = static_cast<int>(at::getNumGPUs());
  if (index < count) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("device '", compute.device,
                                                    "': this machine has ", count,
                                                    " GPUs, cuda:0 to cuda:", count - 1));
}

absl::Status CheckDeviceMemory(const ComputeSpec& compute, int64_t bytes) {
  if (compute.device == "cpu") return absl::OkStatus();
  const auto [free, total] = at::getDeviceAllocator(at::kCUDA)->getMemoryInfo(
      static_cast<at::DeviceIndex>(GpuIndex(compute.device)));
  if (bytes <= static_cast<int64_t>(free)) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "device '", compute.device, "': the run would take ", bytes / 1'000'000, " MB of it, and ",
      free / 1'000'000, " of ", total / 1'000'000,
      " MB are free; lower model.width, train.batch_rows, schedule.stages or outer.groups, or set "
      "train.recompute = true"));
}

at::Device DeviceOf(const ComputeSpec& compute) {
  if (compute.device == "cpu") return at::kCPU;
  RequireDeterminism();
  return {at::kCUDA, static_cast<at::DeviceIndex>(GpuIndex(compute.device))};
}

at::ScalarType DtypeOf(const ComputeSpec& compute) {
  return compute.dtype == "bfloat16" ? at::kBFloat16 : at::kFloat;
}

void RequireDeterminism() {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*replace=*/1);
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(false);
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
  context.setFloat32MatmulPrecision("highest");
  context.setAllowTF32CuDNN(false);
  context.setSDPUseMath(true);
  context.setSDPUseFlash(false);
  context.setSDPUseMemEfficient(false);
  context.setSDPUseCuDNN(false);
}

}  // namespace longhaul
