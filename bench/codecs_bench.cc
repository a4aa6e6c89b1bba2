// Encode and decode speed of every codec in GB/s of fp32 input, one thread, in cache and in memory,
// beside memcpy and plain reading in the same run:
//   of_read   share of this run's read bandwidth
//   of_limit  share of what that bandwidth allows, read / (1 + bits per element / 32)
// Only ratios of one run mean anything; absolute figures change with the machine and its
// neighbours.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <vector>

#include "compressors/catalog.h"

namespace longhaul {
namespace {

constexpr size_t kInCache = size_t{32} << 10;   // elements: 128 KiB
constexpr size_t kInMemory = size_t{16} << 20;  // 64 MiB

const std::vector<float>& Input() {
  static const std::vector<float> x = [] {
    std::vector<float> drawn(kInMemory);
    std::mt19937 rng(1);
    std::normal_distribution<float> normal;
    for (float& v : drawn) v = normal(rng);
    return drawn;
  }();
  return x;
}

// Integers, because the compiler may then vectorise as it likes.
uint64_t ReadAll(const float* x, size_t n) {
  constexpr size_t kLanes = 16;
  uint64_t words[kLanes] = {};
  for (size_t i = 0; i + 2 * kLanes <= n; i += 2 * kLanes) {
    uint64_t w[kLanes];
    std::memcpy(w, x + i, sizeof(w));
    for (size_t j = 0; j < kLanes; ++j) words[j] ^= w[j];
  }
  uint64_t sum = 0;
  for (uint64_t w : words) sum ^= w;
  return sum;
}

// The best of several passes, GB/s, measured once per size.
double ReadBandwidth(size_t n) {
  double best = 0;
  const size_t passes = std::max<size_t>(1, kInMemory / n);
  for (int repeat = 0; repeat < 7; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    for (size_t i = 0; i < passes; ++i) benchmark::DoNotOptimize(ReadAll(Input().data(), n));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::max(best, 4e-9 * static_cast<double>(n * passes) / took.count());
  }
  return best;
}
double CachedReadBandwidth(size_t n) {
  static const double in_cache = ReadBandwidth(kInCache);
  static const double in_memory = ReadBandwidth(kInMemory);
  return n == kInCache ? in_cache : in_memory;
}

void Report(benchmark::State& state, size_t n, double bits) {
  const double bytes = 4.0 * static_cast<double>(n) * static_cast<double>(state.iterations());
  const double read = CachedReadBandwidth(n) * 1e9;
  using benchmark::Counter;
  state.counters["GB/s"] = Counter(bytes * 1e-9, Counter::kIsRate);
  state.counters["of_read"] = Counter(bytes / read, Counter::kIsRate);
  state.counters["of_limit"] = Counter(bytes / read * (1 + bits / 32), Counter::kIsRate);
}

void Read(benchmark::State& state, size_t n) {
  for (auto _ : state) benchmark::DoNotOptimize(ReadAll(Input().data(), n));
  Report(state, n, 0);
}

void Memcpy(benchmark::State& state, size_t n) {
  std::vector<float> out(n);
  for (auto _ : state) {
    std::memcpy(out.data(), Input().data(), 4 * n);
    benchmark::ClobberMemory();
  }
  Report(state, n, 32);
}

enum class Way { kEncode, kDecode };

void Run(benchmark::State& state, const std::string& name, Isa isa, Way way, size_t n) {
  const auto codec = *MakeCodec(name, isa);
  const Shape shape = {1, n};
  const ConstTensor x = {Input().data(), DType::kF32, shape};
  const auto codec_state = codec->NewState(shape);
  std::vector<std::byte> frame(codec->MaxFrameBytes(shape, DType::kF32));
  const size_t bytes = *codec->Encode(x, 1, codec_state.get(), frame);
  std::vector<float> y(n);
  for (auto _ : state) {
    const bool ok =
        way == Way::kEncode
            ? codec->Encode(x, 1, codec_state.get(), frame).ok()
            : codec->Decode(std::span(frame).first(bytes), nullptr, {y.data(), DType::kF32, shape})
                  .ok();
    if (!ok) state.SkipWithError("the codec refuses");
    benchmark::ClobberMemory();
  }
  Report(state, n, 8.0 * static_cast<double>(bytes) / static_cast<double>(n));
}

void RegisterAll() {
  CachedReadBandwidth(kInCache);  // now, not inside the first benchmark
  CachedReadBandwidth(kInMemory);
  std::vector<std::string> names = CodecNames();
  names.emplace_back("int4-b64-h64+ef");
  for (size_t n : {kInCache, kInMemory}) {
    const std::string where = n == kInCache ? "/cache" : "/memory";
    benchmark::RegisterBenchmark(("read" + where).c_str(), Read, n);
    benchmark::RegisterBenchmark(("memcpy" + where).c_str(), Memcpy, n);
    for (const std::string& name : names) {
      for (Isa isa : AllIsas()) {
        if (!IsaSupported(isa) || (isa == Isa::kScalar && n == kInMemory)) continue;
        const std::string tag = where + "/" + std::string(IsaName(isa));
        benchmark::RegisterBenchmark((name + "/encode" + tag).c_str(), Run, name, isa, Way::kEncode,
                                     n);
        benchmark::RegisterBenchmark((name + "/decode" + tag).c_str(), Run, name, isa, Way::kDecode,
                                     n);
      }
    }
  }
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) {
  longhaul::RegisterAll();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
