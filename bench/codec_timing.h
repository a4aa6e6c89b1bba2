#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

// How codecs_bench takes time, and ggml's C as a peer.
namespace longhaul {

// Medians over the rounds.
struct Timing {
  double gb_per_s = 0;  // of fp32 input
  double of_read = 0;   // time of one read of the tensor / time of the pass, of the same round
};

// The wall's, or that of the calling thread's own work: on a busy machine the latter still tells
// two kernels apart while the tensor fits into the cache. Not for two threads.
enum class Clock { kWall, kCpu };

// What is timed, and what comes before each time and is not.
struct Pass {
  std::function<void()> work;
  std::function<void()> before = nullptr;
};

// In every round: `read`, then each of `passes`, all long enough to be timed. The first round is
// not counted.
std::vector<Timing> TimeRounds(int rounds, size_t elements, const Pass& read,
                               const std::vector<Pass>& passes, Clock clock);

// Reads every word of x: [n]; as fast as AVX2 or the compiler can.
void ReadAll(const float* x, size_t n);

// ggml's row functions out of a shared library (scripts/bench_codecs.sh builds it).
struct GgmlFormat {
  std::string name;
  double bits;
  void (*encode)(const void* x, void* out, int64_t k);
  void (*decode)(const void* in, void* x, int64_t k);
};
struct GgmlLibrary {
  std::vector<GgmlFormat> formats;  // those that the library has
};
// Nothing for an empty path; a library that does not load is named on stderr.
GgmlLibrary LoadGgml(const std::string& path);

}  // namespace longhaul
