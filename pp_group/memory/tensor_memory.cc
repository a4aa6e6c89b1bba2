#include "pp_group/memory/tensor_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <c10/core/CPUAllocator.h>

namespace longhaul {
namespace {

constexpr size_t kLeastBytes = size_t{64} << 10;
constexpr size_t kPageBytes = 4096, kAlignment = 64;  // the alignment is torch's

// Eight classes between powers of two, in whole pages: experts get another number of tokens in
// every micro-batch, so that exact sizes would never be used again. Pages beyond a tensor's own
// size are not resident until one that is larger touches them.
size_t ClassOf(size_t bytes) {
  const size_t step = std::max(std::bit_floor(bytes) / 8, kPageBytes);
  return (bytes + step - 1) / step * step;
}

[[noreturn]] void NoMemory(size_t bytes) {
  C10_THROW_ERROR(OutOfMemoryError, "no memory for a tensor of " + std::to_string(bytes) +
                                        " bytes: " + std::strerror(errno));
}

class ReusedMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override { return &Delete; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
  TensorMemoryUse Use();

 private:
  static void Delete(void* block);
  void* Take(size_t size);
  void GiveBack(void* block);
  void UnmapIdle(size_t bytes);

  std::mutex mu_;
  std::unordered_map<void*, size_t> taken_;    // sizes
  std::map<size_t, std::vector<void*>> idle_;  // by size
  size_t used_ = 0, idle_bytes_ = 0, peak_ = 0;
};

// Never destroyed: tensors may outlive everything else of the process.
ReusedMemory& Memory() {
  static auto* const memory = new ReusedMemory;
  return *memory;
}

c10::DataPtr ReusedMemory::allocate(size_t bytes) {
  void* block = nullptr;
  if (bytes >= kLeastBytes) {
    block = Take(ClassOf(bytes));
  } else if (bytes > 0 && posix_memalign(&block, kAlignment, bytes) != 0) {
    NoMemory(bytes);
  }
  return {block, block, &Delete, at::Device(at::kCPU)};
}

void* ReusedMemory::Take(size_t size) {
  const std::lock_guard lock(mu_);
  used_ += size;
  peak_ = std::max(peak_, used_);
  void* block = nullptr;
  if (const auto found = idle_.find(size); found != idle_.end() && !found->second.empty()) {
    block = found->second.back();
    found->second.pop_back();
    idle_bytes_ -= size;
  } else {
    if (used_ + idle_bytes_ > peak_) UnmapIdle(used_ + idle_bytes_ - peak_);
    block = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) {
      used_ -= size;
      NoMemory(size);
    }
  }
  taken_[block] = size;
  return block;
}

void ReusedMemory::Delete(void* block) { Memory().GiveBack(block); }

void ReusedMemory::GiveBack(void* block) {
  const std::lock_guard lock(mu_);
  const auto found = taken_.find(block);
  if (found == taken_.end()) {
    free(block);
    return;
  }
  used_ -= found->second;
  idle_bytes_ += found->second;
  idle_[found->second].push_back(block);
  taken_.erase(found);
}

// The largest first: the fewest calls.
void ReusedMemory::UnmapIdle(size_t bytes) {
  size_t done = 0;
  for (auto at = idle_.rbegin(); at != idle_.rend() && done < bytes; ++at) {
    while (!at->second.empty() && done < bytes) {
      munmap(at->second.back(), at->first);
      at->second.pop_back();
      done += at->first;
    }
  }
  idle_bytes_ -= done;
}

TensorMemoryUse ReusedMemory::Use() {
  const std::lock_guard lock(mu_);
  return {static_cast<int64_t>(used_), static_cast<int64_t>(peak_),
          static_cast<int64_t>(used_ + idle_bytes_)};
}

}  // namespace

void UseTensorMemory() {
  static const bool once = [] {
    c10::SetCPUAllocator(&Memory(), /*priority=*/1);
    return true;
  }();
  (void)once;
}

TensorMemoryUse TensorMemory() { return Memory().Use(); }

}  // namespace longhaul
