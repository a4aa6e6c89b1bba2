#include "plugin/core/device/device_runtime.h"

#include <map>
#include <memory>
#include <mutex>

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
    Events events;
    cudaSetDevice(gpu_);
    absl::Status s =
        StatusOf(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "new stream");
    if (s.ok()) s = StatusOf(cudaEventCreate(&events.begun), "new event");
    // Of the kind that sleeps.
    if (s.ok()) {
      s = StatusOf(cudaEventCreateWithFlags(&events.reached, cudaEventBlockingSync), "new event");
    }
    if (!s.ok()) {
      Destroy(stream, events);
      return s;
    }
    const std::lock_guard lock(mu_);
    events_[stream] = events;
    return stream;
  }
  void FreeStream(CudaStream stream) override { Destroy(stream, EventsOf(stream, /*last=*/true)); }
  absl::Status After(CudaStream stream, void* event) override {
    cudaSetDevice(gpu_);  // called first for every job
    absl::Status s;
    if (event != nullptr) {
      s = StatusOf(cudaStreamWaitEvent(stream, static_cast<cudaEvent_t>(event), 0),
                   "wait for the program's stream");
    }
    if (s.ok()) s = StatusOf(cudaEventRecord(EventsOf(stream).begun, stream), "record");
    return s;
  }
  absl::StatusOr<absl::Duration> Await(CudaStream stream) override {
    const Events events = EventsOf(stream);
    float milliseconds = 0;
    absl::Status s = StatusOf(cudaEventRecord(events.reached, stream), "record");
    if (s.ok()) s = StatusOf(cudaEventSynchronize(events.reached), "wait for a codec");
    if (s.ok()) {
      s = StatusOf(cudaEventElapsedTime(&milliseconds, events.begun, events.reached),
                   "time of a codec");
    }
    if (!s.ok()) return s;
    return absl::Milliseconds(static_cast<double>(milliseconds));
  }

 private:
  struct Events {
    cudaEvent_t begun = nullptr, reached = nullptr;
  };

  Events EventsOf(CudaStream stream, bool last = false) {
    const std::lock_guard lock(mu_);
    const auto found = events_.find(stream);
    const Events events = found->second;
    if (last) events_.erase(found);
    return events;
  }
  static void Destroy(cudaStream_t stream, const Events& events) {
    if (events.begun != nullptr) cudaEventDestroy(events.begun);
    if (events.reached != nullptr) cudaEventDestroy(events.reached);
    if (stream != nullptr) cudaStreamDestroy(stream);
  }

  const int gpu_;
  std::mutex mu_;
  std::map<CudaStream, Events> events_;  // under mu_
};

}  // namespace

std::shared_ptr<DeviceRuntime> NewCudaRuntime(int gpu) {
  return std::make_shared<CudaRuntime>(gpu);
}

}  // namespace longhaul
