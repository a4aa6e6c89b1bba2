#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace longhaul {

// Buffers of the frames that are on their way, by handle. A frame of the MTU fits its head; only a
// TSO frame gets a tail as well, so memory follows the traffic and not the largest possible frame.
// Grows to the largest number ever in flight. Thread safety: none.
class FramePool {
 public:
  explicit FramePool(size_t head_bytes) : head_bytes_(head_bytes) {}

  struct Frame {
    std::unique_ptr<std::byte[]> head;  // [head_bytes]
    std::unique_ptr<std::byte[]> tail;  // [kTailBytes] or null
    size_t bytes = 0;                   // of the whole frame
  };
  static constexpr size_t kTailBytes = 1 << 16;
  size_t head_bytes() const { return head_bytes_; }

  uint32_t Take() {
    if (free_.empty()) {
      frames_.push_back({std::make_unique_for_overwrite<std::byte[]>(head_bytes_), nullptr, 0});
      return static_cast<uint32_t>(frames_.size() - 1);
    }
    const uint32_t handle = free_.back();
    free_.pop_back();
    return handle;
  }
  void Give(uint32_t handle) {
    Frame& frame = frames_[handle];
    if (frame.tail != nullptr) free_tails_.push_back(std::move(frame.tail));
    free_.push_back(handle);
  }
  Frame& operator[](uint32_t handle) { return frames_[handle]; }

  // A tail for a read that may or may not need it.
  std::unique_ptr<std::byte[]> TakeTail() {
    if (free_tails_.empty()) return std::make_unique_for_overwrite<std::byte[]>(kTailBytes);
    auto tail = std::move(free_tails_.back());
    free_tails_.pop_back();
    return tail;
  }

 private:
  size_t head_bytes_;
  std::vector<Frame> frames_;
  std::vector<uint32_t> free_;  // last in, first out: the warmest buffer first
  std::vector<std::unique_ptr<std::byte[]>> free_tails_;
};

}  // namespace longhaul
