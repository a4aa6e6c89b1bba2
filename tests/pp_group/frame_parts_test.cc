// What crosses between groups in parts that have a frame each.

#include <cmath>
#include <limits>

#include <ATen/ATen.h>

#include "gtest/gtest.h"
#include "pp_group/outer/group_average.h"
#include "tests/pp_group/memory_backend.h"

namespace longhaul {
namespace {

// Two members average [2 + 3]: the second part of one of them is not finite.
class Parts : public testing::Test {
 protected:
  static constexpr int64_t kElements = 5;
  static std::vector<FramePart> At(bool first) {
    if (first) return {{0, 2, true, false}, {2, 5, false, false}};
    return {{0, 3, false, false}, {3, 5, true, true}};
  }
  // Both members' averages of `stage`.
  void Average(int stage, bool first, const std::vector<at::Tensor>& own,
               const std::string& codec) {
    const auto peers = NewMemoryGroup(2);
    std::vector<std::unique_ptr<GroupAverage>> members;
    for (int g = 0; g < 2; ++g) {
      members.push_back(
          *GroupAverage::Create(codec, {g, 2, stage, 5, peers[g], At(first)}, kElements));
      ASSERT_TRUE(members[g]->Begin(1, own[g]).ok());
    }
    for (auto& member : members) {
      const at::Tensor scratch = at::empty({kElements});
      ASSERT_TRUE(member->Receive().ok());
      norms_.push_back(*member->SquaredNorms(scratch));
      averages_.push_back(member->Average(scratch, {false, false})->clone());
      bytes_.push_back(member->bytes_sent());
    }
  }
  std::vector<at::Tensor> averages_;
  std::vector<std::vector<double>> norms_;
  std::vector<int64_t> bytes_;
};

TEST_F(Parts, NormsCountACopyOnce) {
  const std::vector<at::Tensor> own = {at::tensor({1.f, 2.f, 3.f, 4.f, 5.f}),
                                       at::tensor({2.f, 2.f, 2.f, 4.f, 4.f})};
  Average(0, true, own, "none");
  Average(1, false, own, "none");
  EXPECT_EQ(norms_[0], (std::vector<double>{55, 44}));
  EXPECT_EQ(norms_[2], (std::vector<double>{14, 12})) << "without 4, 5 and 4, 4";
  for (const at::Tensor& average : averages_) {
    EXPECT_TRUE(at::equal(average, at::tensor({1.5f, 2.f, 2.5f, 4.f, 4.5f})));
  }
}

TEST_F(Parts, WhatIsNotFiniteInOnePartLeavesTheOtherAlone) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Average(0, true, {at::tensor({1.f, 2.f, nan, 4.f, 5.f}), at::ones({kElements})}, "int8-b64");
  for (const at::Tensor& average : averages_) {
    EXPECT_TRUE(at::isfinite(average.narrow(0, 0, 2)).all().item<bool>());
    EXPECT_TRUE(at::isnan(average.narrow(0, 2, 3)).all().item<bool>());
  }
  for (const auto& norms : norms_) {
    EXPECT_TRUE(std::isinf(norms[0]));
    EXPECT_TRUE(std::isfinite(norms[1]));
  }
}

// int8-b64: 64 bytes of header, a bf16 scale, from the next 8 on the codes; 74 of the first part,
// so that the second begins at 128.
TEST_F(Parts, FramesStandAtMultiplesOf64Bytes) {
  Average(0, true, {at::ones({kElements}), at::ones({kElements})}, "int8-b64");
  EXPECT_EQ(bytes_, (std::vector<int64_t>{128 + 64 + 8 + 3, 128 + 64 + 8 + 3}));
}

TEST(SavedStates, OfOtherPartsAreRefused) {
  const auto made = [](std::vector<FramePart> parts) {
    return *GroupAverage::Create("int8-b64+ef", {0, 2, 0, 5, nullptr, std::move(parts)}, 5);
  };
  const auto both = made({{0, 2, true, false}, {2, 5, false, false}});
  const auto other = made({{0, 3, false, false}, {3, 5, true, true}});
  const std::vector<std::byte> saved = both->SaveCodecState();
  EXPECT_TRUE(both->ParseCodecState(saved).ok());
  EXPECT_EQ(other->ParseCodecState(saved).status().code(), absl::StatusCode::kInvalidArgument);
  for (const size_t bytes : {size_t{0}, size_t{4}, size_t{8}, saved.size() - 1}) {
    EXPECT_EQ(both->ParseCodecState(std::span(saved).first(bytes)).status().code(),
              absl::StatusCode::kDataLoss)
        << bytes;
  }
  std::vector<std::byte> more = saved;
  more.resize(more.size() + 1);
  EXPECT_EQ(both->ParseCodecState(more).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace longhaul
