#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "compressors/cuda/team/team.h"

struct CUstream_st;

namespace longhaul {

// A cudaStream_t, without CUDA's headers.
using CudaStream = CUstream_st*;

struct BlockLaunchers;
struct CastLaunchers;
struct SelectionLaunchers;

// Everything that a codec asks of a device: a GPU, or the host that stands in for one in tests.
// Each call but `error` enqueues on a stream and answers 0 or an error number.
struct DeviceApi {
  int (*fill)(void* device, int byte, size_t bytes, CudaStream stream);
  int (*to_host)(const void* device, void* host, size_t bytes, CudaStream stream);
  int (*to_device)(const void* host, void* device, size_t bytes, CudaStream stream);
  std::string (*error)(int number);
  const BlockLaunchers* blocks;
  const CastLaunchers* casts;
  const SelectionLaunchers* selection;
};

// The GPU's; in the library that only a build with CUDA has.
const DeviceApi& CudaDevice();

}  // namespace longhaul
