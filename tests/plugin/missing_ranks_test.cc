// What a collective that does not complete in time says: who is missing, in the same words on every
// rank, and a file with the last operations. On a clock that the test moves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "plugin/core/history.h"
#include "plugin/core/waits.h"
#include "tests/plugin/rigged_transport.h"

namespace longhaul {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

constexpr int kRanks = 4;

std::string Text(const absl::Status& status) { return std::string(status.message()); }

std::string FileNamedBy(const std::string& message) {
  constexpr std::string_view kBefore = "the last operations with each rank are in ";
  const size_t at = message.find(kBefore);
  return at == std::string::npos ? "" : message.substr(at + kBefore.size());
}

std::string Read(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

struct Case {
  std::string name;
  std::function<void(Group&, std::vector<float>&, std::vector<float>&, Group::Done)> begin;
};

std::vector<Case> AllCollectives() {
  return {
      {"broadcast", [](Group& g, auto& x, auto&, auto done) { g.Broadcast(F32(x), 0, done); }},
      {"allreduce",
       [](Group& g, auto& x, auto&, auto done) { g.AllReduce(F32(x), ReduceOp::kSum, done); }},
      {"reduce",
       [](Group& g, auto& x, auto&, auto done) { g.Reduce(F32(x), 0, ReduceOp::kSum, done); }},
      {"reducescatter",
       [](Group& g, auto& x, auto& all, auto done) {
         g.ReduceScatter(F32(all), std::vector<int64_t>(kRanks, int64_t(x.size())), F32(x),
                         ReduceOp::kSum, done);
       }},
      {"gather", [](Group& g, auto& x, auto& all,
                    auto done) { g.Gather(F32(x), F32Parts(all, kRanks), 3, done); }},
      {"scatter", [](Group& g, auto& x, auto& all,
                     auto done) { g.Scatter(F32Parts(all, kRanks), F32(x), 3, done); }},
      {"allgather",
       [](Group& g, auto& x, auto& all, auto done) { g.AllGather(F32(x), F32(all), done); }},
      {"barrier", [](Group& g, auto&, auto&, auto done) { g.Barrier(done); }},
  };
}

class MissingRank : public testing::TestWithParam<int> {};  // which one

TEST_P(MissingRank, IsNamedByEveryCollectiveOnEveryRankAlike) {
  const auto missing = static_cast<size_t>(GetParam());
  for (const Case& collective : AllCollectives()) {
    SCOPED_TRACE(collective.name);
    RiggedCluster cluster(kRanks);
    const auto group = cluster.MakeGroup(
        "missing", [](GroupOptions& options) { options.timeout = absl::Seconds(5); });
    std::array<std::vector<float>, kRanks> x, all;
    std::array<Outcome, kRanks> outcomes;
    for (size_t r = 0; r < kRanks; ++r) {
      x[r] = Noise(4000, r);
      all[r] = Noise(4000 * kRanks, r);
      if (r != missing) collective.begin(*group[r], x[r], all[r], outcomes[r].done());
    }
    cluster.Pass(absl::Seconds(5), 2);
    for (size_t r = 0; r < kRanks; ++r) {
      if (r == missing) continue;
      ASSERT_TRUE(outcomes[r].finished()) << r;
      const absl::Status status = outcomes[r].Wait();
      EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
      EXPECT_THAT(Text(status),
                  HasSubstr(collective.name + " (collective 0) on rank " + std::to_string(r) +
                            " of group 'missing': rank " + std::to_string(missing) +
                            " did not come to it within the timeout of 5s;"));
      const std::string path = FileNamedBy(Text(status));
      EXPECT_THAT(Read(path), HasSubstr(collective.name)) << path;
      std::remove(path.c_str());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, MissingRank, testing::Values(0, 1, 2, 3));

TEST(MonitoredBarrier, HasATimeOfItsOwnAndNamesTheFirstOrAllWhoAreMissing) {
  RiggedCluster cluster(kRanks);
  const auto group = cluster.MakeGroup(
      "monitored", [](GroupOptions& options) { options.timeout = absl::Seconds(10); });
  std::array<Outcome, kRanks> first, all, longer;
  for (const size_t r : {0, 3}) {
    group[r]->MonitoredBarrier(absl::Seconds(2), /*name_all=*/false, first[r].done());
  }
  cluster.Pass(absl::Seconds(2), 2);
  for (const size_t r : {0, 3}) {
    ASSERT_TRUE(first[r].finished());
    EXPECT_THAT(Text(first[r].Wait()),
                HasSubstr("Rank 1 failed to pass monitoredBarrier in 2000 ms"));
  }
  for (const size_t r : {0, 3}) {
    group[r]->MonitoredBarrier(absl::Seconds(2), /*name_all=*/true, all[r].done());
  }
  cluster.Pass(absl::Seconds(2), 2);
  for (const size_t r : {0, 3}) {
    ASSERT_TRUE(all[r].finished());
    EXPECT_THAT(Text(all[r].Wait()),
                HasSubstr("Ranks 1, 2 failed to pass monitoredBarrier in 2000 ms"));
  }
  // Longer than the group's.
  for (const size_t r : {0, 3}) {
    group[r]->MonitoredBarrier(absl::Seconds(20), false, longer[r].done());
  }
  cluster.Pass(absl::Seconds(19), 2);
  EXPECT_FALSE(longer[0].finished() || longer[3].finished());
  for (const size_t r : {1, 2}) {  // they are two barriers behind: those have failed
    for (Outcome* outcome : {&first[r], &all[r], &longer[r]}) {
      group[r]->MonitoredBarrier(absl::Seconds(20), false, outcome->done());
    }
    EXPECT_THAT(Text(first[r].Wait()), HasSubstr("Rank 1 failed"));
    EXPECT_THAT(Text(all[r].Wait()), HasSubstr("Ranks 1, 2 failed"));
  }
  for (const Outcome& outcome : longer) EXPECT_EQ(outcome.Wait(), absl::OkStatus());
}

TEST(MonitoredBarrier, NeedsTime) {
  RiggedCluster cluster(2);
  const auto group = cluster.MakeGroup("no time");
  Outcome outcome;
  group[0]->MonitoredBarrier(absl::ZeroDuration(), false, outcome.done());
  EXPECT_EQ(outcome.Wait().code(), absl::StatusCode::kInvalidArgument);
}

TEST(MissingRank, ARankThatWouldHandOnTheRootsValuesIsNotBlamed) {
  RiggedCluster cluster(kRanks);
  const auto group =
      cluster.MakeGroup("tree", [](GroupOptions& options) { options.timeout = absl::Seconds(5); });
  std::array<std::vector<float>, kRanks> x;
  std::array<Outcome, kRanks> outcomes;
  // Rank 3, which rank 2 is to hand them to, comes first, so that its time is over first.
  for (const size_t r : {3, 1, 2}) {
    x[r] = Noise(100, r);
    group[r]->Broadcast(F32(x[r]), 0, outcomes[r].done());
    cluster.Pass(absl::Seconds(1), 1);
  }
  cluster.Pass(absl::Seconds(2), 1);
  for (const size_t r : {3, 1, 2}) {
    ASSERT_TRUE(outcomes[r].finished());
    EXPECT_THAT(Text(outcomes[r].Wait()), HasSubstr("'tree': rank 0 did not come"));
    std::remove(FileNamedBy(Text(outcomes[r].Wait())).c_str());
  }
}

TEST(MissingRank, IsNamedByThoseWhoWaitForItThroughOthers) {
  RiggedCluster cluster(4);
  const auto group =
      cluster.MakeGroup("chain", [](GroupOptions& options) { options.timeout = absl::Seconds(8); });
  std::array<std::vector<float>, 4> x;
  std::array<Outcome, 4> outcomes;
  for (auto& values : x) values.resize(10);
  // Rank 3 does nothing; 2 waits for 3, 1 for 2, and 0 has called what only it has come to.
  group[2]->Recv(F32(x[2]), 3, 0, outcomes[2].done());
  group[1]->Recv(F32(x[1]), 2, 5, outcomes[1].done());
  group[0]->Reduce(F32(x[0]), 0, ReduceOp::kSum, outcomes[0].done());
  cluster.Pass(absl::Seconds(6), 1);  // three quarters: they tell each other
  cluster.Pass(absl::Seconds(2), 1);
  for (const size_t r : {0, 1, 2}) ASSERT_TRUE(outcomes[r].finished());
  EXPECT_THAT(Text(outcomes[0].Wait()),
              HasSubstr("ranks 1, 2, 3 did not come to it within the timeout of 8s: rank 1 waits "
                        "for rank 2 (recv, tag 5), as it said 2s ago, rank 2 waits for rank 3 "
                        "(recv, tag 0), as it said 2s ago; the last"));
  EXPECT_THAT(Text(outcomes[1].Wait()),
              HasSubstr("within the timeout of 8s: rank 2 waits for rank 3 (recv, tag 0), as it "
                        "said 2s ago; the last"));
  EXPECT_THAT(Text(outcomes[2].Wait()), HasSubstr("from rank 3, sequence 0, tag 0: not complete "
                                                  "within the timeout of 8s; the last"));
  for (const size_t r : {0, 1, 2}) std::remove(FileNamedBy(Text(outcomes[r].Wait())).c_str());
}

// All come to a sum, and the values of rank 1 stay on their way: who waits for others says so, too.
TEST(MissingRank, ASlowRankOfACollectiveThatAllHaveJoinedIsNamed) {
  RiggedCluster cluster(3);
  const auto group =
      cluster.MakeGroup("slow", [](GroupOptions& options) { options.timeout = absl::Seconds(8); });
  cluster.wires[1]->hold = [](const PacketHeader& header) {
    return header.kind == PacketKind::kData && header.offset > 0;
  };
  std::array<std::vector<float>, 3> x;
  std::array<Outcome, 3> sums;
  std::vector<float> y(10);
  Outcome recv;
  group[2]->Recv(F32(y), 0, 5, recv.done());
  for (size_t r = 0; r < 3; ++r) {
    x[r] = Noise(1 << 20, r);
    group[r]->AllReduce(F32(x[r]), ReduceOp::kSum, sums[r].done());
  }
  cluster.Pass(absl::Seconds(6), 1);
  cluster.Pass(absl::Seconds(2), 1);
  EXPECT_THAT(Text(sums[0].Wait()),
              HasSubstr("all ranks came to it, but it was not complete within the timeout of 8s: "
                        "values to or from rank 1 are still under way"));
  EXPECT_THAT(Text(recv.Wait()),
              HasSubstr("rank 0 waits for rank 1 (allreduce 0), as it said 2s ago"));
  for (const Outcome* outcome : {&sums[0], &sums[1], &sums[2], &recv}) {
    std::remove(FileNamedBy(Text(outcome->Wait())).c_str());
  }
}

TEST(MissingRank, ACircleIsCalledOne) {
  RiggedCluster cluster(2);
  const auto group = cluster.MakeGroup(
      "circle", [](GroupOptions& options) { options.timeout = absl::Seconds(8); });
  std::array<std::vector<float>, 2> x;
  std::array<Outcome, 2> outcomes;
  for (size_t r = 0; r < 2; ++r) {
    x[r].resize(10);
    group[r]->Recv(F32(x[r]), static_cast<int>(1 - r), 0, outcomes[r].done());
  }
  cluster.Pass(absl::Seconds(6), 1);
  cluster.Pass(absl::Seconds(2), 1);
  for (size_t r = 0; r < 2; ++r) {
    ASSERT_TRUE(outcomes[r].finished());
    EXPECT_THAT(Text(outcomes[r].Wait()), HasSubstr("they wait for each other in a circle; the"));
    std::remove(FileNamedBy(Text(outcomes[r].Wait())).c_str());
  }
}

TEST(MissingRank, WhatWasSaidLongAgoIsNotBelieved) {
  WaitTable table;
  table.Said(1, 2, "recv, tag 0", absl::Seconds(10));
  EXPECT_THAT(table.Chain(1, 0, absl::Seconds(5), absl::Seconds(15)), HasSubstr("rank 2"));
  EXPECT_EQ(table.Chain(1, 0, absl::Seconds(5), absl::Milliseconds(15001)), "");
}

TEST(MissingRank, ALateReceiveNamesItsPeerAndTheFile) {
  RiggedCluster cluster(2);
  const auto group =
      cluster.MakeGroup("late", [](GroupOptions& options) { options.timeout = absl::Seconds(5); });
  std::vector<float> x(10), sent = Noise(10, 1);
  Outcome there, late;
  group[1]->Send(F32(sent), 0, 4, there.done());
  group[0]->Recv(F32(x), 1, 4, there.done());
  group[0]->Recv(F32(x), 1, 7, late.done());
  cluster.Pass(absl::Seconds(5), 1);
  const std::string message = Text(late.Wait());
  EXPECT_THAT(message, HasSubstr("from rank 1, sequence 0, tag 7"));
  const std::string path = FileNamedBy(message);
  EXPECT_EQ(
      Read(path),
      "longhaul: group 'late' rank 0 of 2: the last 32 operations with each rank, the newest "
      "last\n"
      "rank 1\n"
      "  recv, tag 4                                40 bytes  done, began 5s ago, ended 5s ago\n"
      "  recv, tag 7                                40 bytes  failed, began 5s ago, ended 0 "
      "ago\n");
  std::remove(path.c_str());
}

TEST(History, KeepsTheLast32OfEachRank) {
  History history("group 'h' rank 0 of 3", 3);
  std::vector<uint64_t> numbers;
  for (int i = 0; i < 40; ++i) {
    numbers.push_back(
        history.Begin(1, {.direction = Direction::kSent, .what = "allreduce", .tag = i, .bytes = 8},
                      absl::Seconds(i)));
  }
  history.Begin(2, {.direction = Direction::kReceived, .what = "recv", .tag = 5, .bytes = 1 << 30},
                absl::Seconds(40));
  history.End(1, numbers[0], false, absl::Seconds(40));  // long forgotten: another lies there
  history.End(1, numbers[39], true, absl::Seconds(41));
  const std::string text = history.Text(absl::Seconds(42));
  EXPECT_THAT(text, Not(HasSubstr("allreduce 7, sent")));
  EXPECT_THAT(text, HasSubstr("allreduce 8, sent                           8 bytes  waiting, "
                              "began 34s ago\n"));
  EXPECT_THAT(text, HasSubstr("allreduce 39, sent                          8 bytes  done, began "
                              "3s ago, ended 1s ago\n"));
  EXPECT_THAT(text, HasSubstr("rank 2\n  recv, tag 5                        1073741824 bytes  "
                              "waiting, began 2s ago\n"));
  EXPECT_THAT(text, Not(HasSubstr("failed")));
  EXPECT_THAT(text, Not(HasSubstr("rank 0\n")));
}

TEST(History, AFileThatWasTakenAwayIsMadeAgain) {
  History history("group 'h' rank 0 of 1", 1);
  const std::string first = FileNamedBy(history.Written(absl::ZeroDuration()));
  EXPECT_EQ(FileNamedBy(history.Written(absl::Seconds(1))), first);
  ASSERT_EQ(std::remove(first.c_str()), 0);
  const std::string second = FileNamedBy(history.Written(absl::Seconds(2)));
  EXPECT_THAT(Read(second), HasSubstr("group 'h' rank 0 of 1"));
  std::remove(second.c_str());
}

TEST(History, AFolderThatCannotBeWrittenIsSaid) {
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  setenv("TMPDIR", "/nowhere/at/all", 1);
  History history("group 'h' rank 0 of 1", 1);
  EXPECT_THAT(history.Written(absl::ZeroDuration()),
              HasSubstr("could not be written to /nowhere/at/all/longhaul-history-"));
  if (before == nullptr) {
    unsetenv("TMPDIR");
  } else {
    setenv("TMPDIR", kept.c_str(), 1);
  }
}

}  // namespace
}  // namespace longhaul
