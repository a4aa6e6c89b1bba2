#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "tests/compressors/cuda_frames.h"
#include "tests/compressors/cuda_host_team.h"

namespace longhaul {

// The host's memory in the place of a GPU's, and its teams in the place of a GPU's blocks.
class HostMemory final : public DeviceMemory {
 public:
  std::byte* Device(int place, size_t bytes) override {
    return device_[static_cast<size_t>(place)].Make(bytes);
  }
  std::byte* Host(size_t bytes) override { return host_.Make(bytes); }
  void Upload(const void* from, std::byte* to, size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void Download(const std::byte* from, void* to, size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void Wait() override {}
  bool FencesStand() override {
    return host_.Stands() && std::all_of(device_.begin(), device_.end(),
                                         [](const Piece& piece) { return piece.Stands(); });
  }
  const DeviceApi& api() override { return HostDevice(); }
  CudaStream stream() override { return nullptr; }

 private:
  // Memory aligned as a GPU's, and a fence behind it that must keep its value.
  struct Piece {
    std::byte* Make(size_t bytes) {
      size = bytes;
      memory.assign(bytes + kFence + 256, kMark);
      begin = memory.data() + (256 - reinterpret_cast<uintptr_t>(memory.data()) % 256);
      return begin;
    }
    bool Stands() const {
      return begin == nullptr || std::all_of(begin + size, begin + size + kFence,
                                             [](std::byte b) { return b == kMark; });
    }
    static constexpr std::byte kMark{0x5A};
    static constexpr size_t kFence = 64;
    std::vector<std::byte> memory;
    std::byte* begin = nullptr;
    size_t size = 0;
  };
  std::array<Piece, kPlaces> device_;
  Piece host_;
};

}  // namespace longhaul
