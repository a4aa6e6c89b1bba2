#pragma once

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <vector>

// How long a GPU takes for what is enqueued; for the benchmarks of the codecs.
namespace longhaul {

constexpr int kRepeats = 21, kFewestRepeats = 5, kSets = 4;
constexpr std::chrono::milliseconds kLongest{500};

inline void Must(cudaError_t error) {
  if (error == cudaSuccess) return;
  fmt::print(stderr, "cuda_codecs_bench: {}\n", cudaGetErrorString(error));
  std::exit(1);
}

// The median of several timed runs, after two that are not; of fewer where one is long.
inline double Seconds(cudaStream_t stream, const std::function<void()>& enqueue) {
  cudaEvent_t start, stop;
  Must(cudaEventCreate(&start));
  Must(cudaEventCreate(&stop));
  std::vector<float> ms;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kRepeats + 2; ++i) {
    if (i >= kFewestRepeats + 2 && std::chrono::steady_clock::now() - begin > kLongest) break;
    Must(cudaEventRecord(start, stream));
    enqueue();
    Must(cudaEventRecord(stop, stream));
    Must(cudaEventSynchronize(stop));
    float took;
    Must(cudaEventElapsedTime(&took, start, stop));
    if (i >= 2) ms.push_back(took);
  }
  const auto middle = ms.begin() + static_cast<ptrdiff_t>(ms.size() / 2);
  std::nth_element(ms.begin(), middle, ms.end());
  Must(cudaEventDestroy(start));
  Must(cudaEventDestroy(stop));
  return *middle * 1e-3;
}

// What the device takes for enqueue(set), one set after the other, the host not in its way.
inline double DeviceSeconds(cudaStream_t stream, const std::function<void(int set)>& enqueue) {
  cudaGraph_t graph;
  cudaGraphExec_t replay;
  Must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int set = 0; set < kSets; ++set) enqueue(set);
  Must(cudaStreamEndCapture(stream, &graph));
  Must(cudaGraphInstantiate(&replay, graph, 0));
  const double seconds = Seconds(stream, [&] { Must(cudaGraphLaunch(replay, stream)); });
  Must(cudaGraphExecDestroy(replay));
  Must(cudaGraphDestroy(graph));
  return seconds / kSets;
}

struct Memory {
  explicit Memory(size_t bytes) { Must(cudaMalloc(&at, bytes)); }
  ~Memory() { cudaFree(at); }
  Memory(const Memory&) = delete;
  std::byte* bytes() const { return static_cast<std::byte*>(at); }
  void* at = nullptr;
};

}  // namespace longhaul
