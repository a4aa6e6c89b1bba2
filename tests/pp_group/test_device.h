#pragma once

#include <cstdlib>
#include <functional>

#include <ATen/ATen.h>

#include "pp_group/models/model_spec.h"

namespace longhaul {

// Where tests of models compute: LONGHAUL_TEST_DEVICE (scripts/gpu_run.sh says cuda, and with which
// attention), else the CPU, as what is written out always does.
inline ComputeSpec OnTestDevice(const ModelSpec& model, ComputeSpec compute = {}) {
  const char* const device = std::getenv("LONGHAUL_TEST_DEVICE");
  const char* const attention = std::getenv("LONGHAUL_TEST_ATTENTION");
  if (device != nullptr && model.engine != "cpu") compute.device = device;
  if (attention != nullptr) compute.attention = attention;
  return compute;
}

inline at::Device TestDevice() {
  const char* const device = std::getenv("LONGHAUL_TEST_DEVICE");
  return device == nullptr ? at::Device(at::kCPU) : at::Device(device);
}

// Has `change` write the float32 values of a contiguous tensor, wherever it lies.
inline void ChangeValues(const at::Tensor& x, const std::function<void(float*)>& change) {
  const at::Tensor host = x.cpu();  // of one on the CPU: itself
  change(host.data_ptr<float>());
  if (!x.is_cpu()) x.copy_(host);
}

}  // namespace longhaul
