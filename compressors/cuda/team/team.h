#pragma once

#include <cstddef>
#include <cstdint>

#include "compressors/numbers/small_floats.h"

// The language that the CUDA kernels are written in. A kernel is a value with
//   static constexpr int kThreads    threads of one team: 32 (a warp) or a whole block of them
//   static constexpr int kMinBlocks  optional (launch.cuh)
//   uint64_t teams() const           how many teams work, each on its own part
//   void operator()(Team&) const     what one team does
// and nvcc compiles its text for the GPU (device_team.cuh), while any host compiler compiles the
// same text for a team of plain arrays that runs its threads one after the other, phase by phase
// (tests/compressors/cuda_host_team.h). So a kernel's arithmetic is tested where no GPU is.
//
// Team gives:
//   index()              number of this team
//   thread()             the calling thread on the GPU; some thread on the host: for what all have
//                        alike
//   Own<T>               one T per thread, registers on the GPU; own[t] is that of thread t
//   Shared<T>            one T that the team shares, at most once per type; touched in Phase only
//   Each(body)           body(t) for every thread t; threads do not see each other's work
//   Phase(body)          the same, then a barrier: what was written is seen by all afterwards
//   Xor(own, mask)       every thread gets own[t ^ mask], mask < 32
//   From(own, source)    every thread gets own of lane source[t] of its warp
//   Total(own)           the sum of all threads' uint32_t, alike for all; one barrier in a block
//   Largest(own)         the maximum, likewise
//   BitCount(word)       how many bits are set
//   Load<T>, Store<T>    one T at an address aligned for it; Load16, Store16: a Quad
//   Min(address, value): atomic
namespace longhaul {

// Text of a kernel: for the GPU alone under nvcc, for the host everywhere else.
#ifdef __CUDACC__
#define LONGHAUL_TEXT __device__ __forceinline__
#define LONGHAUL_HOST_DEVICE __host__ __device__
#define LONGHAUL_UNROLL _Pragma("unroll")
#define LONGHAUL_ROLLED _Pragma("unroll 1")
#else
#define LONGHAUL_TEXT inline
#define LONGHAUL_HOST_DEVICE
#define LONGHAUL_UNROLL
#define LONGHAUL_ROLLED
#endif

constexpr int kWarp = 32;
constexpr int kPerThread = 8;               // elements that a thread works on side by side
constexpr int kStrip = kWarp * kPerThread;  // consecutive elements of a warp

// What one 16-byte access moves.
struct alignas(16) Quad {
  uint32_t word[4];
};

// What a kernel says of its input, at the head of its device buffer; it travels to the host in the
// place of the frame's header. All ones: nothing is wrong.
struct DeviceReport {
  uint64_t fault;        // the least of block << 2 | BlockFault
  uint64_t reserved[7];  // the header's length
};
static_assert(sizeof(DeviceReport) == 64);
constexpr uint64_t kNoFault = UINT64_MAX;

// The team's threads in groups of kWidth consecutive ones: all get the fold of their group's.
// op must be commutative and associative on what it is given.
template <int kWidth, class Team, class T, class Op>
LONGHAUL_TEXT void Fold(Team& team, T& own, Op op) {
  for (int mask = 1; mask < kWidth; mask *= 2) {
    auto other = team.Xor(own, mask);
    team.Each([&](int t) { own[t] = op(own[t], other[t]); });
  }
}

// a / b; b is not 0. A division of 64 bits takes a GPU five times as long as one of 32.
LONGHAUL_TEXT uint64_t Quotient(uint64_t a, uint64_t b) {
  if (((a | b) >> 32) == 0) return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
  return a / b;
}

}  // namespace longhaul
