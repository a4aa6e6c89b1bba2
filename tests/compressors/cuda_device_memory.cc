#include "tests/compressors/cuda_device_memory.h"

#include <cuda_runtime_api.h>

#include <array>

namespace longhaul {
namespace {

// A GPU call that must not fail once there is a GPU.
void Must(cudaError_t error) { ASSERT_EQ(error, cudaSuccess) << cudaGetErrorString(error); }

constexpr size_t kFence = 256;
constexpr int kMark = 0x5A;

class GpuMemory final : public DeviceMemory {
 public:
  GpuMemory() { Must(cudaStreamCreate(&stream_)); }
  ~GpuMemory() override {
    for (Piece& piece : device_) cudaFree(piece.memory);
    cudaFreeHost(host_.memory);
    cudaStreamDestroy(stream_);
  }
  std::byte* Device(int place, size_t bytes) override {
    Piece& piece = device_[static_cast<size_t>(place)];
    if (piece.capacity < bytes + kFence) {
      cudaFree(piece.memory);
      piece.capacity = 2 * (bytes + kFence);
      Must(cudaMalloc(&piece.memory, piece.capacity));
    }
    piece.size = bytes;
    Must(cudaMemset(piece.memory, kMark, bytes + kFence));
    return static_cast<std::byte*>(piece.memory);
  }
  std::byte* Host(size_t bytes) override {
    if (host_.capacity < bytes) {
      cudaFreeHost(host_.memory);
      host_.capacity = 2 * bytes;
      Must(cudaMallocHost(&host_.memory, host_.capacity));
    }
    return static_cast<std::byte*>(host_.memory);
  }
  void Upload(const void* from, std::byte* to, size_t bytes) override {
    Must(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
  }
  void Download(const std::byte* from, void* to, size_t bytes) override {
    Must(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
  }
  void Wait() override { Must(cudaStreamSynchronize(stream_)); }
  bool FencesStand() override {
    for (const Piece& piece : device_) {
      std::array<std::byte, kFence> fence;
      if (piece.memory == nullptr) continue;
      Download(static_cast<std::byte*>(piece.memory) + piece.size, fence.data(), kFence);
      for (std::byte b : fence) {
        if (b != std::byte{kMark}) return false;
      }
    }
    return true;
  }
  const DeviceApi& api() override { return CudaDevice(); }
  CudaStream stream() override { return stream_; }

 private:
  struct Piece {
    void* memory = nullptr;
    size_t capacity = 0, size = 0;
  };
  std::array<Piece, kPlaces> device_;
  Piece host_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace

std::unique_ptr<DeviceMemory> OpenGpu(std::string& why) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    why = std::string("no GPU: ") +
          cudaGetErrorString(error == cudaSuccess ? cudaErrorNoDevice : error);
    return nullptr;
  }
  return std::make_unique<GpuMemory>();
}

}  // namespace longhaul
