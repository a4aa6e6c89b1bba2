#include "pp_group/memory/tensor_memory.h"

#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace longhaul {
namespace {

constexpr int64_t kMiB = 1 << 20;

at::Tensor OfMiB(int64_t mib) { return at::ones({mib * kMiB / 4}, at::kFloat); }

class TensorMemoryTest : public testing::Test {
 protected:
  void SetUp() override { UseTensorMemory(); }
};

TEST_F(TensorMemoryTest, MemoryOfTheSameSizeIsUsedAgain) {
  const void* first = OfMiB(5).data_ptr();
  const at::Tensor again = OfMiB(5);
  EXPECT_EQ(again.data_ptr(), first);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(again.data_ptr()) % 64, 0);
  EXPECT_EQ(again.sum().item<float>(), 5 * kMiB / 4);
}

// Sizes that come one after the other do not add up: what lies idle goes before more is mapped.
TEST_F(TensorMemoryTest, NoMoreIsHeldThanWasTakenAtOnce) {
  const int64_t before = TensorMemory().used;
  for (const int64_t mib : {8, 10, 12, 14, 9, 11, 13}) OfMiB(mib);
  { const at::Tensor a = OfMiB(16), b = OfMiB(8); }
  for (const int64_t mib : {20, 18, 22, 24}) OfMiB(mib);
  const TensorMemoryUse use = TensorMemory();
  EXPECT_EQ(use.used, before);
  EXPECT_LE(use.mapped, use.peak);
  EXPECT_EQ(use.peak - before, 24 * kMiB);
}

TEST_F(TensorMemoryTest, NothingIsLostWhenThreadsTakeAndGiveBack) {
  const int64_t before = TensorMemory().used;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 200; ++i) {
        const at::Tensor x = at::full({20'000 + 5'000 * ((i + t) % 7)}, t, at::kFloat);
        ASSERT_EQ(x.min().item<float>(), t);
        ASSERT_EQ(x.max().item<float>(), t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(TensorMemory().used, before);
  EXPECT_LE(TensorMemory().mapped, TensorMemory().peak);
}

TEST_F(TensorMemoryTest, WhatNoMachineHasIsSaidInOneLine) {
  try {
    at::empty({int64_t{1} << 58}, at::kByte);
    FAIL() << "there is memory for 2^58 bytes";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what_without_backtrace()).find("no memory for a tensor of 2882"),
              std::string::npos)
        << error.what_without_backtrace();
  }
}

}  // namespace
}  // namespace longhaul
