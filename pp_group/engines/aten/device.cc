#include "pp_group/engines/aten/device.h"

#include <cstdlib>
#include <optional>

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/SDPBackend.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "pp_group/device_name.h"

namespace longhaul {

absl::Status CheckDevice(const ComputeSpec& compute) {
  if (compute.dtype != "float32" && compute.dtype != "bfloat16") {
    return absl::InvalidArgumentError(
        absl::StrCat("dtype '", compute.dtype, "', want float32 or bfloat16"));
  }
  if (compute.device == "cpu") return absl::OkStatus();
  RETURN_IF_ERROR(CheckDeviceName(compute.device));
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
  if (DtypeOf(compute) != at::kFloat) RequireProducts(device, DtypeOf(compute));
  return device;
}

void WaitForDevice(at::Device device) {
  const c10::impl::VirtualGuardImpl impl(device.type());
  impl.synchronizeStream(impl.getStream(device));
}

void RequireProducts(at::Device device, at::ScalarType dtype) {
  const at::Tensor x = at::ones({16, 16}, at::TensorOptions(device).dtype(dtype));
  std::string why;
  try {
    const double sum = at::mm(x, x).to(at::kDouble).sum().item<double>();
    if (sum != 16 * 16 * 16) why = absl::StrCat("a sum of ", 16 * 16 * 16, " ones is ", sum);
  } catch (const c10::Error& e) {
    why = e.what_without_backtrace();
    why = why.substr(0, why.find('\n'));
  }
  TORCH_CHECK(why.empty(), "device ", device, " multiplies no matrices of ", dtype, " (", why,
              "): set train.dtype = \"float32\"");
}

std::string AttentionKernelOf(const ModelSpec& model, const ComputeSpec& compute) {
  if (compute.device == "cpu") return "";
  const auto of = [&](int64_t heads) {
    return at::empty(
        {1, heads, model.context, model.width / model.heads},
        at::TensorOptions(DeviceOf(compute)).dtype(DtypeOf(compute)).requires_grad(true));
  };
  const at::Tensor q = of(model.heads), k = of(model.heads);
  switch (static_cast<at::SDPBackend>(at::_fused_sdp_choice(q, k, k, {}, 0, /*is_causal=*/true))) {
    case at::SDPBackend::flash_attention:
      return "flash";
    case at::SDPBackend::efficient_attention:
      return "memory-efficient";
    case at::SDPBackend::cudnn_attention:
      return "cudnn";
    default:
      return "math";
  }
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
