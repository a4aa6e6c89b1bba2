#include "netem/emulators/frame_pool.h"

#include <utility>

namespace longhaul {

uint32_t FramePool::Take() {
  if (free_.empty()) {
    frames_.push_back({std::make_unique_for_overwrite<std::byte[]>(head_bytes_), nullptr, 0});
    return static_cast<uint32_t>(frames_.size() - 1);
  }
  const uint32_t handle = free_.back();
  free_.pop_back();
  return handle;
}

void FramePool::Give(uint32_t handle) {
  Frame& frame = frames_[handle];
  if (frame.tail != nullptr) free_tails_.push_back(std::move(frame.tail));
  free_.push_back(handle);
}

std::unique_ptr<std::byte[]> FramePool::TakeTail() {
  if (free_tails_.empty()) return std::make_unique_for_overwrite<std::byte[]>(kTailBytes);
  auto tail = std::move(free_tails_.back());
  free_tails_.pop_back();
  return tail;
}

}  // namespace longhaul
