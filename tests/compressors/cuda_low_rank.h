#pragma once

#include "compressors/cuda/low_rank/low_rank_launch.h"
#include "compressors/families/low_rank.h"
#include "tests/compressors/cuda_frames.h"

// PowerSGD's kernels on a device beside the CPU's functions (low_rank.h), bit for bit; for the
// tests with and without a GPU.
namespace longhaul {

struct LowRankCase {
  size_t rows, cols;
  size_t missing;  // elements of the last row that are not there
  uint32_t rank;
  size_t skew;  // elements between an aligned address and those of M, P, Q and x
};

// Beyond one chunk of 4096 in either direction, widths that are multiples of eight and such that
// are not, ranks around the four and eight factors that kernels take at once.
inline std::vector<LowRankCase> LowRankCases() {
  std::vector<LowRankCase> cases;
  for (uint32_t rank = 1; rank <= 9; ++rank) {
    cases.push_back({1, 1, 0, rank, 0});
    cases.push_back({70, 33, 5, rank, 0});
    cases.push_back({7, 5000, 123, rank, 0});
    cases.push_back({6, 8456, 0, rank, 0});
    cases.push_back({4100, 40, 0, rank, 0});
    cases.push_back({8500, 36, 11, rank, 0});
    cases.push_back({37, 520, 513, rank, 0});
    cases.push_back({11, 4400, 0, rank, 1});
    cases.push_back({9, 517, 3, rank, 0});
  }
  cases.push_back({300, 288, 0, 4, 0});
  cases.push_back({300, 288, 0, 4, 4});
  cases.push_back({300, 289, 0, 4, 0});
  return cases;
}

class LowRankPair {
 public:
  LowRankPair(const LowRankCase& c, DeviceMemory& memory)
      : view_(Shape{c.rows, c.cols}), case_(c), memory_(memory) {
    view_.rows = c.rows;
    view_.cols = c.cols;
    view_.elements = c.rows * c.cols - c.missing;
    m_ = Draw(Distribution::kGaussian, view_.elements, 1);
    p_ = Draw(Distribution::kGaussian, c.rank * c.rows, 2);
    q_ = Draw(Distribution::kGaussian, c.rank * c.cols, 3);
    run_ = {.m = Upload(0, m_),
            .rows = c.rows,
            .cols = c.cols,
            .elements = view_.elements,
            .rank = c.rank,
            .scale = 0.3f,
            .p = Upload(1, p_),
            .q = Upload(2, q_),
            .x = nullptr,
            .report = reinterpret_cast<DeviceReport*>(memory.Device(4, sizeof(DeviceReport)))};
  }

  void ExpectProjects() {
    std::vector<float> want(p_.size());
    Project(Loops(), view_, m_.data(), run_.scale, q_, want);
    Launch(launch().project);
    ExpectAlike(want, run_.p);
  }
  void ExpectProjectsBack() {
    std::vector<float> want(q_.size());
    ProjectBack(Loops(), view_, m_.data(), run_.scale, p_, want);
    Launch(launch().project_back);
    ExpectAlike(want, run_.q);
  }
  // The third column depends on the first two.
  void ExpectOrthogonalizes() {
    const size_t n = case_.rows;
    for (size_t i = 0; case_.rank > 2 && i < n; ++i) p_[2 * n + i] = 3 * p_[i] - p_[n + i];
    run_.p = Upload(1, p_);
    Orthogonalize(Loops(), p_, n);
    Launch(launch().orthogonalize);
    ExpectAlike(p_, run_.p);
  }
  void ExpectReconstructs(DType to) {
    OwnedTensor want({1, view_.elements}, to), got({1, view_.elements}, to);
    const size_t skew_bytes = case_.skew * BytesPerElement(to);
    run_.x = memory_.Device(3, want.bytes.size() + skew_bytes) + skew_bytes;
    ASSERT_TRUE(Reconstruct(Loops(), view_, p_, q_, want.mutable_view()));
    EXPECT_EQ(Launch(launch().reconstruct[static_cast<size_t>(to)]), kNoFault);
    memory_.Download(run_.x, got.bytes.data(), got.bytes.size());
    for (size_t i = 0; i < want.bytes.size(); ++i) {
      ASSERT_EQ(want.bytes[i], got.bytes[i]) << "byte " << i << " as dtype " << int(to);
    }
  }
  // P or Q holds something that makes elements that are not finite.
  void ExpectReportsFault(float bad) {
    p_[p_.size() - 1] = bad;
    run_.p = Upload(1, p_);
    for (DType to : kDTypes) {
      run_.x = memory_.Device(3, view_.elements * BytesPerElement(to));
      EXPECT_NE(Launch(launch().reconstruct[static_cast<size_t>(to)]), kNoFault);
    }
  }
  // Q holds it where only elements that are missing would be made of it.
  void ExpectIgnores(float bad) {
    q_[q_.size() - 1] = bad;
    run_.q = Upload(2, q_);
    for (DType to : kDTypes) ExpectReconstructs(to);
  }

 private:
  static const Kernels& Loops() { return KernelsOf(BestIsa()); }
  const LowRankLaunchers& launch() const { return *memory_.api().low_rank; }

  float* Upload(int place, const std::vector<float>& values) {
    const size_t bytes = values.size() * sizeof(float), skew_bytes = case_.skew * sizeof(float);
    std::byte* at = memory_.Device(place, bytes + skew_bytes) + skew_bytes;
    memory_.Upload(values.data(), at, bytes);
    return reinterpret_cast<float*>(at);
  }
  // The fault that it reports.
  uint64_t Launch(LowRankLaunch launch) {
    DeviceReport report = {.fault = kNoFault, .reserved = {}};
    memory_.Upload(&report, reinterpret_cast<std::byte*>(run_.report), sizeof(report));
    EXPECT_EQ(launch(run_, memory_.stream()), 0);
    memory_.Wait();
    EXPECT_TRUE(memory_.FencesStand());
    memory_.Download(reinterpret_cast<std::byte*>(run_.report), &report, sizeof(report));
    return report.fault;
  }
  void ExpectAlike(const std::vector<float>& want, const float* device) {
    std::vector<float> got(want.size());
    memory_.Download(reinterpret_cast<const std::byte*>(device), got.data(),
                     got.size() * sizeof(float));
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_EQ(BitsOf(want[i]), BitsOf(got[i])) << "element " << i;
    }
  }

  LowRankView view_;
  const LowRankCase case_;
  DeviceMemory& memory_;
  std::vector<float> m_, p_, q_;
  LowRankRun run_;
};

// check(pair) of every case.
template <class Check>
void ForEachLowRankCase(DeviceMemory& memory, const std::vector<LowRankCase>& cases, Check check) {
  for (const LowRankCase& c : cases) {
    LowRankPair pair(c, memory);
    check(pair);
    ASSERT_FALSE(testing::Test::HasFailure()) << c.rows << " x " << c.cols << " less " << c.missing
                                              << ", rank " << c.rank << ", skew " << c.skew;
  }
}

}  // namespace longhaul
