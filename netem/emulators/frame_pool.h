#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
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

  uint32_t Take();
  void Give(uint32_t handle);
  Frame& operator[](uint32_t handle) { return frames_[handle]; }

  // A tail for a read that may or may not need it.
  std::unique_ptr<std::byte[]> TakeTail();

 private:
  size_t head_bytes_;
  std::vector<Frame> frames_;
  std::vector<uint32_t> free_;  // last in, first out: the warmest buffer first
  std::vector<std::unique_ptr<std::byte[]>> free_tails_;
};

}  // namespace longhaul
