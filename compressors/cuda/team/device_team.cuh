#pragma once

#include "compressors/cuda/team/team.h"

// A team on the GPU: kThreads threads of a block, a whole number of warps. team.h says what it
// owes.
namespace longhaul {

// Teams of one warp share a block; a larger team is a block.
template <int kThreads>
constexpr int kTeamsPerBlock = kThreads == kWarp ? 8 : 1;

template <int kThreads>
class DeviceTeam {
 public:
  template <class T>
  struct Own {
    T value;
    __device__ T& operator[](int) { return value; }
    __device__ const T& operator[](int) const { return value; }
  };
  template <class T>
  struct Shared {
    __device__ Shared() {
      __shared__ T storage[kTeamsPerBlock<kThreads>];
      at = &storage[kThreads == kWarp ? threadIdx.x / kWarp : 0];
    }
    __device__ T* operator->() { return at; }
    T* at;
  };

  __device__ explicit DeviceTeam(uint64_t index)
      : index_(index), thread_(static_cast<int>(threadIdx.x % kThreads)) {}

  __device__ uint64_t index() const { return index_; }
  __device__ int thread() const { return thread_; }

  template <class Body>
  __device__ void Each(Body body) const {
    body(thread_);
  }
  template <class Body>
  __device__ void Phase(Body body) const {
    body(thread_);
    if constexpr (kThreads == kWarp) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  }

  template <class T>
  __device__ Own<T> Xor(const Own<T>& own, int mask) const {
    return Words(own, [mask](uint32_t w) { return __shfl_xor_sync(kAll, w, mask); });
  }
  template <class T>
  __device__ Own<T> From(const Own<T>& own, const Own<int>& source) const {
    return Words(own, [&source](uint32_t w) { return __shfl_sync(kAll, w, source.value); });
  }
  __device__ uint32_t Total(const Own<uint32_t>& own) {
    return OverWarps(__reduce_add_sync(kAll, own.value),
                     [](uint32_t a, uint32_t b) { return a + b; });
  }
  __device__ uint32_t Largest(const Own<uint32_t>& own) {
    return OverWarps(__reduce_max_sync(kAll, own.value),
                     [](uint32_t a, uint32_t b) { return a > b ? a : b; });
  }
  __device__ static uint32_t BitCount(uint32_t word) { return static_cast<uint32_t>(__popc(word)); }

  template <class T>
  __device__ static T Load(const std::byte* p) {
    return *reinterpret_cast<const T*>(p);
  }
  template <class T>
  __device__ static void Store(T value, std::byte* p) {
    *reinterpret_cast<T*>(p) = value;
  }
  // Read once and written once: neither is worth a place in the caches.
  __device__ static Quad Load16(const std::byte* p) {
    const uint4 v = __ldcs(reinterpret_cast<const uint4*>(p));
    return {{v.x, v.y, v.z, v.w}};
  }
  __device__ static void Store16(Quad v, std::byte* p) {
    __stcs(reinterpret_cast<uint4*>(p), uint4{v.word[0], v.word[1], v.word[2], v.word[3]});
  }

  __device__ static void Min(uint64_t* at, uint64_t value) {
    atomicMin(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(value));
  }

 private:
  static constexpr unsigned kAll = 0xFFFFFFFF;

  template <class T, class Move>
  __device__ static Own<T> Words(const Own<T>& own, Move move) {
    static_assert(sizeof(T) % 4 == 0);
    uint32_t words[sizeof(T) / 4];
    __builtin_memcpy(words, &own.value, sizeof(T));
    LONGHAUL_UNROLL
    for (size_t i = 0; i < sizeof(T) / 4; ++i) words[i] = move(words[i]);
    Own<T> moved;
    __builtin_memcpy(&moved.value, words, sizeof(T));
    return moved;
  }

  // One barrier: who comes here again writes to the other place, and nobody gets to the third time
  // before all have read the first.
  template <class Op>
  __device__ uint32_t OverWarps(uint32_t of_warp, Op op) {
    if constexpr (kThreads == kWarp) {
      return of_warp;
    } else {
      __shared__ uint32_t warps[2][kThreads / kWarp];
      odd_ = !odd_;
      if (thread_ % kWarp == 0) warps[odd_][thread_ / kWarp] = of_warp;
      __syncthreads();
      uint32_t all = warps[odd_][0];
      LONGHAUL_UNROLL
      for (int w = 1; w < kThreads / kWarp; ++w) all = op(all, warps[odd_][w]);
      return all;
    }
  }

  const uint64_t index_;
  const int thread_;
  bool odd_ = false;
};

}  // namespace longhaul
