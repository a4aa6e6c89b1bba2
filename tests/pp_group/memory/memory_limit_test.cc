#include "pp_group/memory/memory_limit.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "pp_group/c10d_status.h"
#include "pp_group/device_check.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr int64_t kTotal = 80'000'000'000;
AllocatorWords Torch(const std::string& settings, bool knows = true) {
  return {.torch = "2.13.0", .knows_fraction = knows, .settings = settings};
}

TEST(MemoryLimit, IsAFractionOfTheGpuRoundedUp) {
  const MemoryLimit limit = MemoryLimitOf(2'500'000'000, kTotal, Torch(""));
  EXPECT_EQ(limit.settings, "per_process_memory_fraction:0.031250");
  EXPECT_EQ(limit.said, "2500 of 80000 MB");
  EXPECT_EQ(MemoryLimitOf(1, kTotal, Torch("")).settings, "per_process_memory_fraction:0.000001");
  EXPECT_EQ(MemoryLimitOf(2'500'000'001, kTotal, Torch("")).settings,
            "per_process_memory_fraction:0.031251");
}

TEST(MemoryLimit, TheUsersSettingsStayAndHisLimitStands) {
  EXPECT_EQ(MemoryLimitOf(kTotal / 2, kTotal, Torch("expandable_segments:True")).settings,
            "expandable_segments:True,per_process_memory_fraction:0.500000");
  EXPECT_EQ(MemoryLimitOf(kTotal / 2, kTotal, Torch("max_split_size_mb:64, ")).settings,
            "max_split_size_mb:64,per_process_memory_fraction:0.500000");
  const MemoryLimit his =
      MemoryLimitOf(kTotal / 2, kTotal, Torch("per_process_memory_fraction:0.25"));
  EXPECT_EQ(his.settings, "");
  EXPECT_EQ(his.said, "as the environment has it: per_process_memory_fraction:0.25");
}

TEST(MemoryLimit, WhereThereIsNoneTheRecordSaysWhy) {
  const MemoryLimit old = MemoryLimitOf(kTotal / 2, kTotal, Torch("", /*knows=*/false));
  EXPECT_EQ(old.settings, "");
  EXPECT_EQ(old.said, "none: torch 2.13.0 has no word for it");
  const MemoryLimit other = MemoryLimitOf(kTotal / 2, kTotal, Torch("backend:cudaMallocAsync"));
  EXPECT_EQ(other.settings, "");
  EXPECT_THAT(other.said, AllOf(StartsWith("none: "), EndsWith("backend:cudaMallocAsync")));
  const MemoryLimit all = MemoryLimitOf(kTotal, kTotal, Torch(""));
  EXPECT_EQ(all.settings, "");
  EXPECT_EQ(all.said, "none: the share is 80000 of 80000 MB");
}

TEST(MemoryLimit, AFullGpuIsOneLineThatSaysWhatToDo) {
  const absl::Status status = StatusFromTorch("stage 1", [] {
    throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__},
                                "CUDA out of memory. Tried to allocate 2.00 MiB.\nframe #0");
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  const std::string words(status.message());
  EXPECT_THAT(words, AllOf(StartsWith("stage 1: CUDA out of memory. Tried to allocate 2.00 MiB."),
                           HasSubstr("gpu_memory_of_rank_N"), HasSubstr("train.batch_rows")));
  EXPECT_EQ(words.find('\n'), std::string::npos);
}

// In a process of its own, which has no tensor on the GPU before.
void TakeWithinAndBeyondTheLimit() {
  const auto take = [](int64_t bytes) {
    return at::empty({bytes}, at::device(at::kCUDA).dtype(at::kByte));
  };
  constexpr int64_t kMb = 1'000'000;
  if (!LimitGpuMemory(0, 200 * kMb).ok()) std::exit(2);
  const at::Tensor within = take(100 * kMb);
  const absl::Status beyond = StatusFromTorch("take", [&] { take(150 * kMb); });
  if (beyond.ok()) std::exit(3);
  if (PeakGpuBytes(0) > 200 * kMb) std::exit(4);
  take(50 * kMb);
  std::exit(0);
}

TEST(MemoryLimit, HoldsOnAGpu) {
  if (GpuCount() == 0) GTEST_SKIP() << "no GPU for this torch";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(TakeWithinAndBeyondTheLimit(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace longhaul
