#include "bench/codec_timing.h"

#include <dlfcn.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace longhaul {
namespace {

constexpr double kShortestSample = 2e-3;  // seconds

double Now(Clock clock) {
  timespec now;
  clock_gettime(clock == Clock::kCpu ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// What asking the clock twice adds.
double CostOfTiming(Clock clock) {
  double least = 1;
  for (int i = 0; i < 1000; ++i) {
    const double start = Now(clock);
    least = std::min(least, Now(clock) - start);
  }
  return least;
}

// Of one of `times` in a row; each on its own where something comes before it.
double Seconds(const Pass& pass, int times, Clock clock) {
  if (pass.before == nullptr) {
    const double start = Now(clock);
    for (int i = 0; i < times; ++i) pass.work();
    return (Now(clock) - start) / times;
  }
  static const double costs[] = {CostOfTiming(Clock::kWall), CostOfTiming(Clock::kCpu)};
  double total = 0;
  for (int i = 0; i < times; ++i) {
    pass.before();
    const double start = Now(clock);
    pass.work();
    total += Now(clock) - start - costs[clock == Clock::kCpu ? 1 : 0];
  }
  return total / times;
}

int TimesOf(const Pass& pass, Clock clock) {
  Seconds(pass, 1, clock);
  int times = 1;
  while (Seconds(pass, times, clock) * times < kShortestSample) times *= 2;
  return times;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// What the compiler must believe to be used.
volatile uint64_t sink;

}  // namespace

std::vector<Timing> TimeRounds(int rounds, size_t elements, const Pass& read,
                               const std::vector<Pass>& passes, Clock clock) {
  const int read_times = TimesOf(read, clock);
  std::vector<int> times;
  for (const auto& pass : passes) times.push_back(TimesOf(pass, clock));
  std::vector<std::vector<double>> rates(passes.size()), shares(passes.size());
  for (int round = 0; round < rounds; ++round) {
    const double read_s = Seconds(read, read_times, clock);
    for (size_t i = 0; i < passes.size(); ++i) {
      const double pass_s = Seconds(passes[i], times[i], clock);
      rates[i].push_back(4e-9 * static_cast<double>(elements) / pass_s);
      shares[i].push_back(read_s / pass_s);
    }
  }
  std::vector<Timing> timings;
  for (size_t i = 0; i < passes.size(); ++i) {
    timings.push_back({Median(rates[i]), Median(shares[i])});
  }
  return timings;
}

#if defined(__x86_64__)
namespace {
__attribute__((target("avx2"))) size_t ReadWide(const float* x, size_t n) {
  __m256i sums[8] = {};
  size_t i = 0;
  for (; i + 64 <= n; i += 64) {
    for (size_t j = 0; j < 8; ++j) {
      const auto* at = reinterpret_cast<const __m256i*>(x + i + 8 * j);
      sums[j] = _mm256_xor_si256(sums[j], _mm256_loadu_si256(at));
    }
  }
  for (size_t j = 1; j < 8; ++j) sums[0] = _mm256_xor_si256(sums[0], sums[j]);
  sink = static_cast<uint64_t>(_mm256_extract_epi64(sums[0], 0));
  return i;
}
}  // namespace
#endif

void ReadAll(const float* x, size_t n) {
  size_t i = 0;
#if defined(__x86_64__)
  static const bool wide = __builtin_cpu_supports("avx2");
  if (wide) i = ReadWide(x, n);
#endif
  uint64_t sum = 0;
  for (; i + 2 <= n; i += 2) {
    uint64_t word;
    std::memcpy(&word, x + i, 8);
    sum ^= word;
  }
  sink = sum;
}

GgmlLibrary LoadGgml(const std::string& path) {
  if (path.empty()) return {};
  void* library = dlopen(path.c_str(), RTLD_LAZY);
  if (library == nullptr) {
    std::fprintf(stderr, "codecs_bench: no ggml: %s\n", dlerror());
    return {};
  }
  struct Names {
    const char *shown, *encode, *decode;
    double bits;
  };
  constexpr Names kNames[] = {
      {"ggml q8_0 (SIMD)", "quantize_row_q8_0", "dequantize_row_q8_0", 8.5},
      {"ggml q8_0 (reference)", "quantize_row_q8_0_ref", "dequantize_row_q8_0", 8.5},
      {"ggml q4_0", "quantize_row_q4_0_ref", "dequantize_row_q4_0", 4.5},
      {"ggml mxfp4", "quantize_row_mxfp4_ref", "dequantize_row_mxfp4", 4.25}};
  GgmlLibrary ggml;
  for (const Names& names : kNames) {
    using Row = void (*)(const void*, void*, int64_t);
    const auto encode = reinterpret_cast<Row>(dlsym(library, names.encode));
    const auto decode = reinterpret_cast<Row>(dlsym(library, names.decode));
    if (encode != nullptr && decode != nullptr) {
      ggml.formats.push_back({names.shown, names.bits, encode, decode});
    }
  }
  return ggml;
}

}  // namespace longhaul
