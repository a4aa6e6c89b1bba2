// A state that goes from all members to one that joins: givers and the joiner in one process, each
// at an address of its own of this machine.
#include "experiments/elastic/state_swarm.h"

#include <filesystem>
#include <fstream>
#include <future>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pp_group/state/handover.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr int kJoiner = 3, kOtherJoiner = 4, kLife = 2;
constexpr int64_t kStep = 8;
constexpr size_t kCommonBytes = 400'000, kMomentBytes = 100'000;

std::string IpOf(int group) { return "127.0.0." + std::to_string(20 + group); }

void Write(const std::string& path, size_t bytes, char fill) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << std::string(bytes, fill);
}

std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Groups 0, 1 and 2 were members; group 3 joins in its third life.
class StateSwarm : public testing::Test {
 protected:
  StateSwarm()
      : folder_(testing::TempDir() + "/state-swarm"),
        hash_store_(c10::make_intrusive<c10d::HashStore>()),
        store_(hash_store_, /*stages=*/1, /*groups=*/5) {
    fs::remove_all(folder_);
    fs::create_directories(folder_ + "/joiner");
    store_.Set("join/3/2/0", IpOf(kJoiner));
    store_.Set("join/4/2/0", IpOf(kOtherJoiner));
  }
  ~StateSwarm() override {
    givers_.clear();
    fs::remove_all(folder_);
  }

  SharedState StateOf(int group, const std::string& name) const {
    return {.step = kStep,
            .stage = 0,
            .members = {{0, 0}, {1, 0}, {2, 0}},
            .moments = true,
            .folder = folder_ + "/" + name,
            .ip = IpOf(group)};
  }
  void Give(int group, char common = 'c', std::optional<int64_t> up_bytes_per_s = std::nullopt) {
    SharedState state = StateOf(group, "giver" + std::to_string(group));
    state.up_bytes_per_s = up_bytes_per_s;
    Write(state.folder + "/" + kStatePart + "/outer_start.f32", kCommonBytes, common);
    Write(state.folder + "/" + MomentsPart(group) + "/first.f32", kMomentBytes,
          static_cast<char>('0' + group));
    Start(state, group);
  }
  void Start(const SharedState& state, int group) {
    auto giver = StateGiver::Start(state, group, joiners_, hash_store_, 1, 5);
    ASSERT_TRUE(giver.ok()) << giver.status();
    givers_.push_back(*std::move(giver));
  }
  absl::StatusOr<StateTaken> Take(absl::Duration patience = absl::Seconds(20)) {
    auto taken = TakeStateFromAll(StateOf(kJoiner, "joiner"), kJoiner, kLife, patience, store_);
    store_.Set("taken/3/2/0", "1");
    return taken;
  }
  void LauncherSaysDown(int group) {
    store_.Set(absl::StrCat("down/", group, "/0"), "1");
    hash_store_->add(kLossesKey, 1);
  }
  void ExpectState(std::vector<int> moments_of) const {
    EXPECT_EQ(Read(folder_ + "/joiner/" + kStatePart + "/outer_start.f32"),
              std::string(kCommonBytes, 'c'));
    for (const int k : moments_of) {
      EXPECT_EQ(Read(folder_ + "/joiner/" + MomentsPart(k) + "/first.f32"),
                std::string(kMomentBytes, static_cast<char>('0' + k)));
    }
  }

  const std::string folder_;
  const c10::intrusive_ptr<c10d::Store> hash_store_;
  RoundStore store_;
  Lives joiners_ = {{kJoiner, kLife}};
  std::vector<std::unique_ptr<StateGiver>> givers_;
};

TEST_F(StateSwarm, EveryMemberGivesAndIsRidOfItsFilesAfterwards) {
  for (const int group : {0, 1, 2}) Give(group);
  const auto taken = Take();
  ASSERT_TRUE(taken.ok()) << taken.status();
  ExpectState({0, 1, 2});
  EXPECT_THAT(taken->lost, ElementsAre(false, false, false));
  EXPECT_THAT(taken->words, testing::IsEmpty());
  EXPECT_EQ(taken->bytes, kCommonBytes + 3 * kMomentBytes);
  int64_t sum = 0;
  for (const auto& [who, group, bytes] : taken->givers) {
    EXPECT_GE(bytes, static_cast<int64_t>(kMomentBytes)) << who;
    sum += bytes;
  }
  EXPECT_GE(sum, taken->bytes);
  for (const auto& giver : givers_) EXPECT_THAT(giver->TakeWarnings(), testing::IsEmpty());
  givers_.clear();
  EXPECT_FALSE(fs::exists(folder_ + "/giver0"));
}

// As workers of several groups on one host are.
TEST_F(StateSwarm, MembersAtOneAddressAreToldApartByTheirPorts) {
  for (const int group : {0, 1, 2}) {
    SharedState state = StateOf(group, "giver" + std::to_string(group));
    state.ip = IpOf(kJoiner);
    Write(state.folder + "/" + kStatePart + "/outer_start.f32", kCommonBytes, 'c');
    Write(state.folder + "/" + MomentsPart(group) + "/first.f32", kMomentBytes,
          static_cast<char>('0' + group));
    Start(state, group);
  }
  const auto taken = Take();
  ASSERT_TRUE(taken.ok()) << taken.status();
  ExpectState({0, 1, 2});
  int64_t sum = 0;
  for (const auto& [who, group, bytes] : taken->givers) {
    EXPECT_GE(bytes, static_cast<int64_t>(kMomentBytes)) << who;
    sum += bytes;
  }
  EXPECT_EQ(sum, taken->bytes) << "nothing is counted twice";
}

TEST_F(StateSwarm, JoinersAtOnceGiveToEachOtherWhatIsTheSameForBoth) {
  joiners_[kOtherJoiner] = kLife;
  // So slow that the other joiner has something to give before all has come from the members.
  for (const int group : {0, 1, 2}) Give(group, 'c', 100'000);
  const auto take = [&](int group, int other) {
    fs::create_directories(folder_ + "/joiner" + std::to_string(group));
    SharedState state = StateOf(group, "joiner" + std::to_string(group));
    state.other_joiners = {{other, kLife}};
    RoundStore store(hash_store_, 1, 5);
    auto taken = TakeStateFromAll(state, group, kLife, absl::Seconds(20), store);
    store.Set(absl::StrCat("taken/", group, "/2/0"), "1");
    return taken;
  };
  auto second = std::async(std::launch::async, take, kOtherJoiner, kJoiner);
  const auto first = take(kJoiner, kOtherJoiner);
  const auto other = second.get();
  int64_t between = 0;
  for (const auto& [taken, other_name] :
       {std::pair(&first, "joiner 4"), std::pair(&other, "joiner 3")}) {
    ASSERT_TRUE(taken->ok()) << taken->status();
    EXPECT_THAT((*taken)->lost, ElementsAre(false, false, false));
    EXPECT_THAT((*taken)->words, testing::IsEmpty());
    ASSERT_EQ((*taken)->givers.size(), 4u);
    EXPECT_EQ((*taken)->givers.back().name, other_name);
    between += (*taken)->givers.back().bytes;
  }
  EXPECT_GT(between, 0);
  for (const char* joiner : {"/joiner3/", "/joiner4/"}) {
    EXPECT_EQ(Read(folder_ + joiner + kStatePart + "/outer_start.f32"),
              std::string(kCommonBytes, 'c'));
    EXPECT_EQ(Read(folder_ + joiner + MomentsPart(2) + "/first.f32"),
              std::string(kMomentBytes, '2'));
  }
}

// Its word is in the store, and nobody answers there.
TEST_F(StateSwarm, AnotherJoinerThatIsGoneCostsNothing) {
  store_.Set("join/2/5/0", IpOf(kOtherJoiner));
  store_.Set("taking/8/0/2", IpOf(kOtherJoiner) + ":9");
  for (const int group : {0, 1}) Give(group);
  SharedState state = StateOf(kJoiner, "joiner");
  state.members = {{0, 0}, {1, 0}};
  state.other_joiners = {{2, 5}};
  const auto taken = TakeStateFromAll(state, kJoiner, kLife, absl::Seconds(20), store_);
  store_.Set("taken/3/2/0", "1");
  ASSERT_TRUE(taken.ok()) << taken.status();
  ExpectState({0, 1});
  EXPECT_THAT(taken->lost, ElementsAre(false, false));
  EXPECT_THAT(taken->words, testing::IsEmpty());
}

TEST_F(StateSwarm, AMembersRateIsOfBothPartsTogether) {
  for (const int group : {0, 1, 2}) Give(group, 'c', 100'000);
  const absl::Time begun = absl::Now();
  ASSERT_TRUE(Take().ok());
  // Each gives its moments and a third of the rest, 233 kB, at 50 kB/s a part: 2 s for the moments.
  EXPECT_GT(absl::Now() - begun, absl::Seconds(1));
}

TEST_F(StateSwarm, AMemberThatHoldsAnotherStateIsNamedAndNothingOfItIsTaken) {
  Give(0, 'x');
  Give(1);
  Give(2);
  const auto taken = Take();
  ASSERT_TRUE(taken.ok()) << taken.status();
  ExpectState({1, 2});
  EXPECT_THAT(taken->lost, ElementsAre(true, false, false));
  EXPECT_EQ(taken->givers[0].bytes, 0);
  ASSERT_EQ(taken->words.size(), 1u);
  EXPECT_THAT(taken->words[0], HasSubstr("group 0: its state has the manifest "));
}

TEST_F(StateSwarm, AMemberThatIsLostBeforeItOffersIsNotWaitedFor) {
  Give(0);
  Give(2);
  LauncherSaysDown(1);
  const auto taken = Take();
  ASSERT_TRUE(taken.ok()) << taken.status();
  ExpectState({0, 2});
  EXPECT_THAT(taken->lost, ElementsAre(false, true, false));
  EXPECT_THAT(taken->words, ElementsAre("group 1: it was lost; its moments start anew"));
}

TEST_F(StateSwarm, AMemberThatIsLostInTheTransferGivesNoMomentsHoweverFarItGot) {
  for (const int group : {0, 1, 2}) Give(group);
  SharedState state = StateOf(kJoiner, "joiner");
  state.midway = [this] { LauncherSaysDown(1); };  // all of its files still come
  const auto taken = TakeStateFromAll(state, kJoiner, kLife, absl::Seconds(20), store_);
  store_.Set("taken/3/2/0", "1");
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_THAT(taken->lost, ElementsAre(false, true, false));
}

TEST_F(StateSwarm, WhatOneStageCouldNotHaveNoStageTakes) {
  for (const int group : {0, 1, 2}) Give(group);
  RoundStore both(hash_store_, /*stages=*/2, /*groups=*/4);
  store_.Set("lost/3/2/1", "0 2");  // the other stage's word
  const auto taken =
      TakeStateFromAll(StateOf(kJoiner, "joiner"), kJoiner, kLife, absl::Seconds(20), both);
  store_.Set("taken/3/2/0", "1");
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_THAT(taken->lost, ElementsAre(true, false, true));
}

TEST_F(StateSwarm, AMemberWhoseFilesAreNotThereSaysSoAndCostsNoOther) {
  Give(0);
  Give(1);
  Start(StateOf(2, "giver2"), 2);
  const auto taken = Take();
  ASSERT_TRUE(taken.ok()) << taken.status();
  ExpectState({0, 1});
  EXPECT_THAT(taken->lost, ElementsAre(false, false, true));
  EXPECT_THAT(givers_[2]->TakeWarnings(), testing::Contains(HasSubstr("giver2/state")));
}

TEST_F(StateSwarm, AMemberWhoseFilesRotIsNamedAndCostsItsMomentsAlone) {
  for (const int group : {0, 1, 2}) Give(group);
  ASSERT_TRUE(store_.Await("swarm/8/0/1", absl::Seconds(20)));
  Write(folder_ + "/giver1/" + MomentsPart(1) + "/first.f32", kMomentBytes, 'r');
  const auto taken = Take(absl::Seconds(2));
  ASSERT_TRUE(taken.ok()) << taken.status();
  ExpectState({0, 2});
  EXPECT_THAT(taken->lost, ElementsAre(false, true, false));
  EXPECT_THAT(taken->words,
              testing::Contains(testing::StartsWith("group 1: fetch: no byte for 2s")));
  EXPECT_THAT(givers_[1]->TakeWarnings(),
              testing::Contains(HasSubstr("no longer match the manifest")));
}

TEST_F(StateSwarm, WhereNobodyGivesTheJoinFails) {
  for (const int group : {0, 1, 2}) LauncherSaysDown(group);
  const auto taken = Take();
  EXPECT_EQ(taken.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(taken.status().message()),
              HasSubstr("no member gave the state of step 8"));
}

TEST_F(StateSwarm, AManifestThatIsNotItsDigestIsRefused) {
  Give(0);
  ASSERT_TRUE(store_.Await("swarm/8/0/0", absl::Seconds(20)));
  const std::string word = store_.Get("swarm/8/0/0");
  store_.Set("manifest/" + word.substr(0, word.find(' ')), "{}");
  for (const int group : {1, 2}) LauncherSaysDown(group);
  EXPECT_EQ(Take().status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace longhaul
