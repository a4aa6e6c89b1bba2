// The state that a joiner takes from all members: which element is whose.
#include "pp_group/state/handover.h"

#include <filesystem>
#include <fstream>

#include <ATen/ATen.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/pp_group/training.h"

namespace longhaul {
namespace {

const std::function<absl::Duration()> kClock = TestClock;

// One stage alone; its state filled with what tells whose it is.
std::unique_ptr<RankState> StateOf(const TrainSpec& spec, float common, float moments) {
  auto state = NewRankState(spec, MemoryRanks(spec).front(), &kClock);
  EXPECT_TRUE(state.ok()) << state.status();
  (*state)->outer->theta_start().fill_(common);
  (*state)->outer->state()[0].second.fill_(common + 1);
  (*state)->optimizer->first_moment().fill_(moments);
  (*state)->optimizer->second_moment().fill_(moments + 0.5F);
  return *std::move(state);
}

// By pencil: of N elements and three members, where slices end.
void ExpectThirds(const RankState& state, std::vector<float> wanted) {
  const int64_t n = state.stage->parameters().numel();
  const int64_t ends[] = {0, n / 3, 2 * n / 3, n};
  for (size_t k = 0; k < 3; ++k) {
    const at::Tensor first = state.optimizer->first_moment().slice(0, ends[k], ends[k + 1]);
    const at::Tensor second = state.optimizer->second_moment().slice(0, ends[k], ends[k + 1]);
    const float half = wanted[k] == 0 ? 0 : 0.5F;
    EXPECT_EQ(first.eq(wanted[k]).sum().item<int64_t>(), ends[k + 1] - ends[k]) << "slice " << k;
    EXPECT_EQ(second.eq(wanted[k] + half).sum().item<int64_t>(), ends[k + 1] - ends[k]);
  }
  EXPECT_TRUE(state.stage->parameters().eq(7).all().item<bool>());
  EXPECT_TRUE(state.outer->theta_start().eq(7).all().item<bool>());
  EXPECT_TRUE(state.outer->state()[0].second.eq(8).all().item<bool>());
}

class Handover : public testing::Test {
 protected:
  const TrainSpec spec_ = SmallSpec(1, 2);
  const std::unique_ptr<RankState> givers_[3] = {StateOf(spec_, 7, 1), StateOf(spec_, 7, 2),
                                                 StateOf(spec_, 7, 3)};
  const std::unique_ptr<RankState> joiner_ = StateOf(spec_, -1, -1);
};

TEST_F(Handover, OfAllMembersEachGivesItsThirdOfTheMoments) {
  ASSERT_TRUE(
      CopyStateOfAll({givers_[0].get(), givers_[1].get(), givers_[2].get()}, joiner_.get()));
  ExpectThirds(*joiner_, {1, 2, 3});
}

TEST_F(Handover, MomentsOfOneThatWasLostStartAnew) {
  ASSERT_TRUE(CopyStateOfAll({nullptr, givers_[1].get(), givers_[2].get()}, joiner_.get()));
  ExpectThirds(*joiner_, {0, 2, 3});
  EXPECT_FALSE(CopyStateOfAll({nullptr, nullptr}, joiner_.get())) << "nobody is left";
}

TEST_F(Handover, ThroughFilesItIsTheSame) {
  const std::string folder = testing::TempDir() + "/handover";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder + "/joiner");
  for (int k = 0; k < 3; ++k) {
    const std::string own = folder + "/giver" + std::to_string(k);
    std::filesystem::create_directories(own);
    ASSERT_TRUE(WriteState(*givers_[k], k, 3, own).ok());
    std::filesystem::copy(own + "/" + MomentsPart(k), folder + "/joiner/" + MomentsPart(k));
  }
  std::filesystem::copy(folder + "/giver2/" + kStatePart, folder + "/joiner/" + kStatePart);
  ASSERT_TRUE(ReadState(folder + "/joiner", {false, false, false}, joiner_.get()).ok());
  ExpectThirds(*joiner_, {1, 2, 3});
  std::filesystem::remove_all(folder + "/joiner/" + MomentsPart(1));
  ASSERT_TRUE(ReadState(folder + "/joiner", {false, true, false}, joiner_.get()).ok());
  ExpectThirds(*joiner_, {1, 0, 3});

  const std::string torn = folder + "/joiner/" + MomentsPart(2) + "/second.f32";
  std::filesystem::resize_file(torn, std::filesystem::file_size(torn) - 4);
  const absl::Status status = ReadState(folder + "/joiner", {false, true, false}, joiner_.get());
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("second.f32 has"));
  std::filesystem::remove_all(folder);
}

TEST_F(Handover, AFolderThatCannotBeWrittenIsNamed) {
  const absl::Status status = WriteState(*givers_[0], 0, 3, "/nowhere");
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("/nowhere/state: No such file"));
}

}  // namespace
}  // namespace longhaul
