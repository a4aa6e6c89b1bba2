// The pool of threads that share one tensor: every part once, no waiting for other callers, the
// same bits with any number of threads, and sleep in between.
#include "compressors/numbers/codec_threads.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "compressors/numbers/crc32c.h"
#include "tests/compressors/tensors.h"

namespace longhaul {
namespace {

TEST(CodecThreadsTest, EveryPartOnceWithAnyNumberOfThreads) {
  CodecThreads pool;
  for (size_t threads : {0, 1, 2, 3, 5, 1, 4}) {
    pool.SetCount(threads);
    EXPECT_EQ(pool.count(), std::max<size_t>(threads, 1));
    for (size_t parts : {0, 1, 2, 3, 17, 64}) {
      std::vector<std::atomic<int>> seen(parts);
      pool.Run(parts, [&](size_t i) { ++seen[i]; });
      for (const auto& count : seen) EXPECT_EQ(count, 1);
    }
  }
}

TEST(CodecThreadsTest, PartsReallyRunOnOtherThreads) {
  CodecThreads pool;
  pool.SetCount(2);
  // Both parts wait for each other: one thread alone would never get out.
  std::atomic<int> arrived = 0;
  pool.Run(2, [&](size_t) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 2);
}

TEST(CodecThreadsTest, CallersDoNotWaitForEachOtherAndMayNest) {
  CodecThreads pool;
  pool.SetCount(3);
  std::vector<std::thread> callers;
  std::atomic<size_t> total = 0;
  for (int caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        pool.Run(7, [&](size_t i) { pool.Run(3, [&](size_t j) { total += i + j; }); });
      }
    });
  }
  for (size_t i = 0; i < 20; ++i) pool.SetCount(1 + i % 4);
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total, 3u * 200 * (3 * 21 + 7 * 3));
}

// State letters of this process's other threads: R runs, S sleeps.
std::string OtherThreads() {
  std::string states;
  const std::string self = std::to_string(gettid());
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == self) continue;
    std::ifstream in(task.path() / "stat");
    std::string stat;
    std::getline(in, stat);
    const size_t name_end = stat.rfind(')');
    if (name_end != std::string::npos && name_end + 2 < stat.size()) states += stat[name_end + 2];
  }
  return states;
}

TEST(CodecThreadsTest, IdleThreadsSleep) {
  CodecThreads pool;
  pool.SetCount(4);
  pool.Run(16, [](size_t) {});
  std::string states;
  for (int i = 0; i < 1000; ++i) {  // until the last one has gone to sleep
    states = OtherThreads();
    if (states.find('R') == std::string::npos) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_GE(states.size(), 3u);
  EXPECT_EQ(states.find('R'), std::string::npos) << states;
}

TEST(CodecThreadsTest, SlicesCoverAllAndStayBelowTheirLimit) {
  for (size_t total : {0, 1, 63, 64, 65, 1000, 123'457}) {
    for (size_t least : {0, 1, 10, 5000}) {
      const Slices slices(total, least);
      EXPECT_LE(slices.count(), Slices::kMost);
      size_t at = 0;
      for (size_t i = 0; i < slices.count(); ++i) {
        EXPECT_EQ(slices.first(i), at);
        EXPECT_GT(slices.last(i), at);
        at = slices.last(i);
      }
      EXPECT_EQ(at, total);
    }
  }
}

// The process's pool, back to one thread afterwards.
class SharedTensorTest : public testing::Test {
 protected:
  ~SharedTensorTest() override { CodecThreads::Process().SetCount(1); }
};

TEST_F(SharedTensorTest, ChecksumIsThatOfOneThread) {
  std::vector<std::byte> bytes((size_t{5} << 20) + 12'345);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(i * 2654435761u >> 13);
  for (size_t n : {bytes.size(), size_t{1} << 20, (size_t{1} << 20) + 1}) {
    const auto part = std::span(bytes).first(n);
    CodecThreads::Process().SetCount(3);
    const uint32_t shared = Crc32c(part, 0xDEADBEEF);
    CodecThreads::Process().SetCount(1);
    EXPECT_EQ(shared, Crc32cAlone(part, 0xDEADBEEF));
    EXPECT_EQ(Crc32c(part, 0xDEADBEEF), shared);
  }
}

TEST_F(SharedTensorTest, SameBitsWithAnyNumberOfThreads) {
  // One long row, rows of whole blocks, rows with short blocks; all above the size that is shared.
  for (Shape shape : {Shape{1, 300'001}, Shape{300, 1024}, Shape{301, 997}}) {
    const auto values = Draw(Distribution::kStudentT4, shape.elements(), 5);
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      const OwnedTensor x(values, shape, dtype);
      for (const std::string& name : TestedNames()) {
        CodecThreads::Process().SetCount(1);
        const auto codec = *MakeCodec(name);
        const auto alone = EncodeToFrame(*codec, x.view(), 9);
        ASSERT_TRUE(alone.ok()) << name << " " << alone.status();
        OwnedTensor a(shape, dtype), b(shape, dtype);
        ASSERT_TRUE(codec->Decode(*alone, nullptr, a.mutable_view()).ok()) << name;
        CodecThreads::Process().SetCount(3);
        const auto shared = EncodeToFrame(*codec, x.view(), 9);
        ASSERT_TRUE(shared.ok()) << name << " " << shared.status();
        ASSERT_EQ(*alone, *shared) << name;
        ASSERT_TRUE(codec->Decode(*alone, nullptr, b.mutable_view()).ok()) << name;
        ASSERT_EQ(a.bytes, b.bytes) << name;
      }
    }
  }
}

// The third frame carries what the residuals of two were.
TEST_F(SharedTensorTest, ResidualsAreThoseOfOneThread) {
  const Shape shape = {301, 997};
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const OwnedTensor x(Draw(Distribution::kStudentT4, shape.elements(), 5), shape, dtype);
    for (const char* name : {"int4-b64-h64+ef", "stat4+ef95", "topk-64of4096+none+ef"}) {
      const auto codec = *MakeCodec(name);
      const auto alone = codec->NewState(shape), shared = codec->NewState(shape);
      std::vector<std::byte> a(codec->MaxFrameBytes(shape, dtype)), b(a.size());
      for (int frame = 0; frame < 3; ++frame) {
        CodecThreads::Process().SetCount(1);
        const auto bytes = codec->Encode(x.view(), 9, alone.get(), a);
        ASSERT_TRUE(bytes.ok()) << name << " " << bytes.status();
        CodecThreads::Process().SetCount(3);
        ASSERT_EQ(codec->Encode(x.view(), 9, shared.get(), b), bytes) << name;
        ASSERT_EQ(std::memcmp(a.data(), b.data(), *bytes), 0) << name << ", frame " << frame;
      }
    }
  }
}

TEST_F(SharedTensorTest, WhatIsRefusedIsRefusedFromAnySlice) {
  CodecThreads::Process().SetCount(3);
  std::vector<float> values(300'000, 1.0f);
  for (size_t at : {size_t{0}, size_t{123'456}, values.size() - 1}) {
    values[at] = INFINITY;
    for (const char* name :
         {"none", "int4-b64", "fp8-e4m3-g16", "int8-b64+sr", "topk-64of4096+fp16",
          "randk-64of4096+fp16", "topk-64of4096+stat2+ef95"}) {
      const auto codec = *MakeCodec(name);
      const OwnedTensor x(values, {1, values.size()}, DType::kF32);
      EXPECT_EQ(EncodeToFrame(*codec, x.view(), 9).status().code(),
                absl::StatusCode::kInvalidArgument)
          << name << " at " << at;
    }
    values[at] = 1.0f;
  }
}

}  // namespace
}  // namespace longhaul
