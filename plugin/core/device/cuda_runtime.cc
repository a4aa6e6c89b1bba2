#include "plugin/core/device/cuda_runtime.h"

#include <memory>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

namespace longhaul {
namespace {

absl::Status StatusOf(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(fmt::format("CUDA, {}: {}", what, cudaGetErrorString(error)));
}

// A coder's thread has no current device of its own.
class CudaRuntime final : public DeviceRuntime {
 public:
  explicit CudaRuntime(int gpu) : gpu_(gpu) {}

  const DeviceApi& api() const override { return CudaDevice(); }
  std::byte* AllocateHost(size_t bytes) override {
    void* memory = nullptr;
    cudaSetDevice(gpu_);
    return cudaMallocHost(&memory, bytes) == cudaSuccess ? static_cast<std::byte*>(memory)
                                                         : nullptr;
  }
  void FreeHost(std::byte* memory) override { cudaFreeHost(memory); }
  std::byte* AllocateDevice(size_t bytes) override {
    void* memory = nullptr;
    cudaSetDevice(gpu_);
    return cudaMalloc(&memory, bytes) == cudaSuccess ? static_cast<std::byte*>(memory) : nullptr;
  }
  void FreeDevice(std::byte* memory) override { cudaFree(memory); }
  absl::StatusOr<CudaStream> NewStream() override {
    cudaStream_t stream = nullptr;
    cudaSetDevice(gpu_);
    const absl::Status s =
        StatusOf(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "new stream");
    if (!s.ok()) return s;
    return stream;
  }
  void FreeStream(CudaStream stream) override { cudaStreamDestroy(stream); }
  absl::Status After(CudaStream stream, void* event) override {
    cudaSetDevice(gpu_);  // called first for every job
    if (event == nullptr) return absl::OkStatus();
    return StatusOf(cudaStreamWaitEvent(stream, static_cast<cudaEvent_t>(event), 0),
                    "wait for the program's stream");
  }
  absl::Status Await(CudaStream stream) override {
    cudaEvent_t reached = nullptr;  // of the kind that sleeps
    absl::Status s =
        StatusOf(cudaEventCreateWithFlags(&reached, cudaEventBlockingSync | cudaEventDisableTiming),
                 "new event");
    if (!s.ok()) return s;
    s = StatusOf(cudaEventRecord(reached, stream), "record");
    if (s.ok()) s = StatusOf(cudaEventSynchronize(reached), "wait for a codec");
    cudaEventDestroy(reached);
    return s;
  }

 private:
  const int gpu_;
};

}  // namespace

std::shared_ptr<DeviceRuntime> NewCudaRuntime(int gpu) {
  return std::make_shared<CudaRuntime>(gpu);
}

}  // namespace longhaul
