#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "compressors/cuda/team/device.h"

// The host in the place of a GPU: a team (compressors/cuda/team/team.h) is arrays with one place
// per thread, a phase runs the threads one after the other, a shuffle copies between the arrays.
// Any order of threads must give the same bytes, or a kernel relies on what a GPU does not promise;
// HostOrder says which one is used. What a GPU would trap on, or leave to chance, ends the test.
namespace longhaul {

enum class HostOrder { kAscending, kDescending, kShuffled };
inline HostOrder host_order = HostOrder::kAscending;
inline bool host_in_phase = false;
inline uint64_t host_accesses = 0;  // loads and stores of all kernels so far

inline void HostCheck(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "a kernel on the host: %s\n", what);
  std::abort();
}

template <int kThreads>
class HostTeam {
 public:
  template <class T>
  struct Own {
    T& operator[](int t) { return value[t]; }
    const T& operator[](int t) const { return value[t]; }
    T value[kThreads] = {};
  };
  template <class T>
  struct Shared {
    T* operator->() {
      HostCheck(host_in_phase, "shared memory outside a phase");
      return &storage;
    }
    T storage;
  };

  explicit HostTeam(uint64_t index) : index_(index) {}
  uint64_t index() const { return index_; }
  int thread() const { return kThreads - 1; }

  template <class Body>
  void Each(Body body) const {
    for (int i = 0; i < kThreads; ++i) {
      // 5 is prime to every power of two, so each thread has its turn.
      body(host_order == HostOrder::kAscending    ? i
           : host_order == HostOrder::kDescending ? kThreads - 1 - i
                                                  : (5 * i + 3) % kThreads);
    }
  }
  template <class Body>
  void Phase(Body body) const {
    host_in_phase = true;
    Each(body);
    host_in_phase = false;
  }

  template <class T>
  Own<T> Xor(const Own<T>& own, int mask) const {
    Own<T> moved;
    for (int t = 0; t < kThreads; ++t) moved[t] = own[t ^ mask];
    return moved;
  }
  template <class T>
  Own<T> From(const Own<T>& own, const Own<int>& source) const {
    Own<T> moved;
    for (int t = 0; t < kThreads; ++t) {
      HostCheck(source[t] >= 0 && source[t] < 32, "a shuffle from beyond the warp");
      moved[t] = own[t / 32 * 32 + source[t]];
    }
    return moved;
  }
  uint32_t Total(const Own<uint32_t>& own) const {
    uint32_t sum = 0;
    for (int t = 0; t < kThreads; ++t) sum += own[t];
    return sum;
  }
  uint32_t Largest(const Own<uint32_t>& own) const {
    uint32_t most = 0;
    for (int t = 0; t < kThreads; ++t) most = own[t] > most ? own[t] : most;
    return most;
  }
  static uint32_t BitCount(uint32_t word) {
    return static_cast<uint32_t>(__builtin_popcount(word));
  }

  template <class T>
  static T Load(const std::byte* p) {
    ++host_accesses;
    HostCheck(reinterpret_cast<uintptr_t>(p) % sizeof(T) == 0, "a misaligned load");
    T value;
    std::memcpy(&value, p, sizeof(T));
    return value;
  }
  template <class T>
  static void Store(T value, std::byte* p) {
    ++host_accesses;
    HostCheck(reinterpret_cast<uintptr_t>(p) % sizeof(T) == 0, "a misaligned store");
    std::memcpy(p, &value, sizeof(T));
  }
  static Quad Load16(const std::byte* p) { return Load<Quad>(p); }
  static void Store16(Quad v, std::byte* p) { Store(v, p); }

  static void Min(uint64_t* at, uint64_t value) { *at = value < *at ? value : *at; }

 private:
  const uint64_t index_;
};

struct HostLauncher {
  template <class Kernel>
  static int Launch(const Kernel& kernel, CudaStream) {
    const uint64_t teams = kernel.teams();
    for (uint64_t i = 0; i < teams; ++i) {
      HostTeam<Kernel::kThreads> team(host_order == HostOrder::kAscending ? i : teams - 1 - i);
      kernel(team);
    }
    return 0;
  }
};

// The device that runs kernels so.
const DeviceApi& HostDevice();

}  // namespace longhaul
