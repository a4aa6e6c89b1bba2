#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace longhaul {

// Bytes on loan from a BufferPool, 64-byte aligned, uninitialised; given back by the destructor,
// on any thread, also after the pool's owner is gone.
class PooledBuffer {
 public:
  PooledBuffer() = default;
  PooledBuffer(PooledBuffer&& other) noexcept { *this = std::move(other); }
  PooledBuffer& operator=(PooledBuffer&& other) noexcept;
  ~PooledBuffer() { GiveBack(); }

  // Exactly the bytes asked for, or the first ones after Shrink().
  std::span<std::byte> bytes() const { return {start_, size_}; }
  void Shrink(size_t bytes) { size_ = bytes; }

 private:
  friend class BufferPool;
  struct Shelves;
  void GiveBack();
  std::shared_ptr<Shelves> shelves_;
  std::byte* start_ = nullptr;
  size_t size_ = 0;
  size_t shelf_ = 0;
};

// Recycles big buffers: a fresh 64 MB buffer costs more in page faults than filling it.
// Power-of-two sizes from 4 KiB; at most `max_idle_bytes` wait for reuse. A copy shares the buffers
// of what it was copied from. Thread safe.
class BufferPool {
 public:
  explicit BufferPool(size_t max_idle_bytes = size_t{256} << 20);
  PooledBuffer Acquire(size_t bytes);

 private:
  std::shared_ptr<PooledBuffer::Shelves> shelves_;
};

}  // namespace longhaul
