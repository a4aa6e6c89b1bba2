// PowerSGD's kernels on a GPU, over kSets matrices in turn, timed as the codecs are.
//
//   us      of one launch
//   GB/s    of the matrix's bytes; orthogonalize: of P's
//   share   the same over the bandwidth (read + write of a copy); what a kernel reads or writes of
//           P and Q is not counted
#include <functional>
#include <memory>

#include "bench/cuda_timing.h"
#include "compressors/codec.h"
#include "compressors/cuda/low_rank/low_rank_launch.h"
#include "compressors/reference_tensors.h"

namespace longhaul {
namespace {

constexpr size_t kSide = 8192;
constexpr float kScale = 0.25f;

// Copies of a Gaussian draw, one behind the other.
void Fill(const Memory& memory, size_t floats, uint64_t seed) {
  const auto drawn = DrawReference(Distribution::kGaussian, kSide, seed);
  for (size_t at = 0; at < floats; at += drawn.size()) {
    const size_t count = std::min(drawn.size(), floats - at);
    Must(cudaMemcpy(memory.bytes() + 4 * at, drawn.data(), 4 * count, cudaMemcpyHostToDevice));
  }
}

// A matrix, which is also where it is reconstructed to, and its factors.
struct Set {
  explicit Set(uint32_t rank)
      : m(4 * kSide * kSide),
        p(4 * kSide * rank),
        q(4 * kSide * rank),
        report(sizeof(DeviceReport)),
        rank(rank) {
    Fill(m, kSide * kSide, 1);
    Must(cudaMemset(report.at, 0xFF, sizeof(DeviceReport)));
  }
  void DrawFactors() const {
    for (uint32_t j = 0; j < rank; ++j) {
      const auto column = DrawReference(Distribution::kGaussian, kSide, 2 + j);
      for (const Memory* factor : {&p, &q}) {
        Must(cudaMemcpy(factor->bytes() + 4 * kSide * j, column.data(), 4 * kSide,
                        cudaMemcpyHostToDevice));
      }
    }
  }
  LowRankRun Run() const {
    return {.m = static_cast<const float*>(m.at),
            .rows = kSide,
            .cols = kSide,
            .elements = kSide * kSide,
            .rank = rank,
            .scale = kScale,
            .p = static_cast<float*>(p.at),
            .q = static_cast<float*>(q.at),
            .x = m.bytes(),
            .report = static_cast<DeviceReport*>(report.at)};
  }
  const Memory m, p, q, report;
  const uint32_t rank;
};

struct Line {
  const char* kernel;
  LowRankLaunch launch;
  size_t bytes_per_row;
};

}  // namespace

void MeasureLowRank(double bandwidth, cudaStream_t stream) {
  fmt::print("\nlow rank, {} x {} f32\n{:<22} {:>5} {:>9} {:>9} {:>7}\n", kSide, kSide, "kernel",
             "rank", "us", "GB/s", "share");
  const LowRankLaunchers& low_rank = *CudaDevice().low_rank;
  for (uint32_t rank : {2u, 4u}) {
    std::vector<std::unique_ptr<Set>> sets;
    for (int i = 0; i < kSets; ++i) sets.push_back(std::make_unique<Set>(rank));
    const auto f32 = static_cast<size_t>(DType::kF32), bf16 = static_cast<size_t>(DType::kBF16);
    for (const Line& line : {Line{"project", low_rank.project, 4 * kSide},
                             Line{"project_back", low_rank.project_back, 4 * kSide},
                             Line{"orthogonalize", low_rank.orthogonalize, 4 * rank},
                             Line{"reconstruct f32", low_rank.reconstruct[f32], 4 * kSide},
                             Line{"reconstruct bf16", low_rank.reconstruct[bf16], 2 * kSide}}) {
      for (const auto& set : sets) set->DrawFactors();
      const double seconds = DeviceSeconds(stream, [&](int set) {
        const LowRankRun run = sets[static_cast<size_t>(set)]->Run();
        Must(static_cast<cudaError_t>(line.launch(run, stream)));
      });
      const double rate = static_cast<double>(kSide * line.bytes_per_row) / seconds;
      fmt::print("{:<22} {:>5} {:9.1f} {:9.1f} {:6.1f}%\n", line.kernel, rank, 1e6 * seconds,
                 1e-9 * rate, 100 * rate / bandwidth);
    }
    std::fflush(stdout);
  }
}

}  // namespace longhaul
