#include "plugin/core/buffer_pool.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace longhaul {
namespace {

constexpr size_t kAlignment = 64;
constexpr int kSmallestShift = 12;  // 4 KiB

}  // namespace

struct PooledBuffer::Shelves {
  explicit Shelves(size_t max_idle) : max_idle_bytes(max_idle) {}
  ~Shelves() {
    for (const std::vector<std::byte*>& shelf : idle) {
      for (std::byte* start : shelf) std::free(start);
    }
  }
  static size_t Capacity(size_t shelf) { return size_t{1} << (shelf + kSmallestShift); }

  const size_t max_idle_bytes;
  std::mutex mu;
  size_t idle_bytes = 0;                              // under mu
  std::vector<std::byte*> idle[64 - kSmallestShift];  // under mu
};

void PooledBuffer::GiveBack() {
  if (start_ == nullptr) return;
  std::unique_lock lock(shelves_->mu);
  if (shelves_->idle_bytes + Shelves::Capacity(shelf_) <= shelves_->max_idle_bytes) {
    shelves_->idle_bytes += Shelves::Capacity(shelf_);
    shelves_->idle[shelf_].push_back(start_);
  } else {
    lock.unlock();
    std::free(start_);
  }
  start_ = nullptr;
}

PooledBuffer& PooledBuffer::operator=(PooledBuffer&& other) noexcept {
  if (this == &other) return *this;
  GiveBack();
  shelves_ = std::move(other.shelves_);
  start_ = std::exchange(other.start_, nullptr);
  size_ = std::exchange(other.size_, 0);
  shelf_ = other.shelf_;
  return *this;
}

BufferPool::BufferPool(size_t max_idle_bytes)
    : shelves_(std::make_shared<PooledBuffer::Shelves>(max_idle_bytes)) {}

PooledBuffer BufferPool::Acquire(size_t bytes) {
  PooledBuffer buffer;
  if (bytes == 0) return buffer;
  const int shift = std::max<int>(kSmallestShift, std::bit_width(bytes - 1));
  buffer.shelf_ = static_cast<size_t>(shift - kSmallestShift);
  buffer.size_ = bytes;
  const size_t capacity = PooledBuffer::Shelves::Capacity(buffer.shelf_);
  {
    const std::lock_guard lock(shelves_->mu);
    std::vector<std::byte*>& shelf = shelves_->idle[buffer.shelf_];
    if (!shelf.empty()) {
      buffer.start_ = shelf.back();
      shelf.pop_back();
      shelves_->idle_bytes -= capacity;
    }
  }
  if (buffer.start_ == nullptr) {
    buffer.start_ = static_cast<std::byte*>(std::aligned_alloc(kAlignment, capacity));
    if (buffer.start_ == nullptr) throw std::bad_alloc();
  }
  buffer.shelves_ = shelves_;
  return buffer;
}

}  // namespace longhaul
