#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "compressors/cuda/cuda_codec.h"

namespace longhaul {

// What a DeviceCoder asks of the device's runtime beside what codecs ask (DeviceApi): a GPU's
// (cuda_runtime.cc), or the host that stands in for one in tests. Thread safe.
class DeviceRuntime {
 public:
  virtual ~DeviceRuntime() = default;
  virtual const DeviceApi& api() const = 0;
  // nullptr: there is no more.
  virtual std::byte* AllocateHost(size_t bytes) = 0;  // page-locked
  virtual void FreeHost(std::byte* memory) = 0;
  virtual std::byte* AllocateDevice(size_t bytes) = 0;  // 256-byte aligned
  virtual void FreeDevice(std::byte* memory) = 0;
  // A stream of our own beside those of the program.
  virtual absl::StatusOr<CudaStream> NewStream() = 0;
  virtual void FreeStream(CudaStream stream) = 0;
  // What is enqueued next comes after that event; nullptr: after nothing.
  virtual absl::Status After(CudaStream stream, void* event) = 0;
  // Blocks until the stream has come this far. Never spins. For how long it was at work since the
  // event of the last After: the wait for that event is no part of it.
  virtual absl::StatusOr<absl::Duration> Await(CudaStream stream) = 0;
};

// CUDA's runtime for one GPU of this process.
std::shared_ptr<DeviceRuntime> NewCudaRuntime(int gpu);

}  // namespace longhaul
