#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "pp_group/models/model_spec.h"

namespace longhaul {

// Torch-free. A process that has asked after a GPU must not fork others that use one.
//
// InvalidArgument: no such name, or a dtype that is neither. FailedPrecondition: this torch or this
// machine has no such device; says how many there are.
absl::Status CheckDevice(const ComputeSpec& compute);

// GPUs of this machine that this torch can use.
int GpuCount();

// What computes a model's attention on a GPU: "flash", "memory-efficient", "cudnn" or "math". "": not
// a GPU. Takes a context.
std::string AttentionKernelOf(const ModelSpec& model, const ComputeSpec& compute);

struct GpuMemory {
  int64_t free_bytes, total_bytes;
};
// Of one of them. Takes a context on it, for as long as this process lives.
GpuMemory MemoryOfGpu(int gpu);

}  // namespace longhaul
