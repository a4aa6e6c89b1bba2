#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace longhaul {

// Memory that begins with a cache line, as torch's tensors and the transport's buffers do.
template <typename T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};
  LineAllocator() = default;
  template <typename U>
  LineAllocator(const LineAllocator<U>&) {}
  T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kLine)); }
  void deallocate(T* p, size_t) { ::operator delete(p, kLine); }
  bool operator==(const LineAllocator&) const = default;
};

template <typename T>
using LineAligned = std::vector<T, LineAllocator<T>>;

}  // namespace longhaul
