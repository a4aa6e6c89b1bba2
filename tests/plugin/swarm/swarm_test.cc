#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/plugin/swarm/swarm_fixture.h"

namespace longhaul {
namespace {

using testing::HasSubstr;
constexpr int64_t kBytes = 6 << 20;

absl::StatusOr<FetchReport> FetchAll(const Manifest& manifest, const std::string& into,
                                     const FetchOptions& options) {
  auto fetch = Fetch::Start(manifest, into, options);
  if (!fetch.ok()) return fetch.status();
  return (*fetch)->Wait();
}

int64_t Sum(const std::vector<MemberBytes>& members) {
  int64_t sum = 0;
  for (const MemberBytes& member : members) sum += member.bytes;
  return sum;
}

TEST_F(SwarmTest, EqualFilesGiveEqualManifests) {
  const auto one = MakeManifest(MakeWeights("w", kBytes), {.model = "gpt", .run = "r", .step = 4});
  ASSERT_TRUE(one.ok()) << one.status();
  const auto two = MakeManifest(folder() + "/w", {.model = "gpt", .run = "r", .step = 4});
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ(ManifestDigest(*one), ManifestDigest(*two));
  EXPECT_EQ(one->files.size(), 3u);
  EXPECT_EQ(TotalBytes(*one), kBytes);
}

TEST_F(SwarmTest, FetchTakesFromAllSources) {
  const std::string weights = MakeWeights("w", kBytes);
  const auto manifest = MakeManifest(weights, {});
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  const auto a = StartShare(*manifest, weights, 1, {0}), b = StartShare(*manifest, weights, 2, {0}),
             c = StartShare(*manifest, weights, 3, {0});
  const auto report =
      FetchAll(*manifest, folder() + "/got", FetchAt(0, {a.get(), b.get(), c.get()}));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(SameFiles(weights, folder() + "/got"));
  EXPECT_FALSE(std::filesystem::exists(folder() + "/got.partial"));
  EXPECT_EQ(report->bytes, kBytes);
  EXPECT_EQ(report->kept_bytes, 0);
  EXPECT_EQ(report->delivered.size(), 3u);
  EXPECT_GE(Sum(report->delivered), kBytes);
  // What one says it gave, the other says it got (in the last moments a block may come twice).
  EXPECT_GE(Sum(a->taken()) + Sum(b->taken()) + Sum(c->taken()), kBytes);
}

// Two that fetch give each other what they have: the one seed sends less than two copies.
TEST_F(SwarmTest, FetchersServeEachOther) {
  const std::string weights = MakeWeights("w", 4 * kBytes);
  const auto manifest = MakeManifest(weights, {});
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  SwarmOptions slow = At(1, {2, 3});
  slow.upload_bytes_per_s = 12 << 20;  // else the seed is done before they have met
  const auto seed = Share::Start(*manifest, weights, slow);
  ASSERT_TRUE(seed.ok()) << seed.status();
  FetchOptions one = FetchAt(2, {seed->get()}), two = FetchAt(3, {seed->get()});
  one.swarm.listen.port = 27182;
  two.swarm.listen.port = 27183;
  one.sources.push_back(two.swarm.listen);
  two.sources.push_back(one.swarm.listen);
  auto first = Fetch::Start(*manifest, folder() + "/one", one);
  auto second = Fetch::Start(*manifest, folder() + "/two", two);
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  ASSERT_TRUE((*first)->Wait().ok());
  ASSERT_TRUE((*second)->Wait().ok());
  EXPECT_TRUE(SameFiles(weights, folder() + "/one"));
  EXPECT_TRUE(SameFiles(weights, folder() + "/two"));
  EXPECT_LT(Sum((*seed)->taken()), 2 * 4 * kBytes * 9 / 10);
  EXPECT_EQ((*seed)->turned_away(), 0);
}

TEST_F(SwarmTest, WhoeverIsNoMemberIsTurnedAwayAndNamed) {
  const std::string weights = MakeWeights("w", kBytes);
  const auto manifest = MakeManifest(weights, {});
  const auto share = StartShare(*manifest, weights, 1, {2});
  FetchOptions options = FetchAt(5, {share.get()});
  options.give_up_after = absl::Seconds(2);
  const auto report = FetchAll(*manifest, folder() + "/got", options);
  EXPECT_TRUE(absl::IsDeadlineExceeded(report.status())) << report.status();
  EXPECT_THAT(std::string(report.status().message()), HasSubstr(ToString(share->address())));
  EXPECT_THAT(Notices(), HasSubstr(MemberIp(5) + " is not a member"));
  EXPECT_GE(share->turned_away(), 1);
  EXPECT_FALSE(std::filesystem::exists(folder() + "/got"));
  EXPECT_EQ(Sum(share->taken()), 0);
}

TEST_F(SwarmTest, SourceOfAnotherManifestIsNamed) {
  const std::string weights = MakeWeights("w", kBytes), others = MakeWeights("x", kBytes / 2);
  const auto manifest = MakeManifest(weights, {}), other = MakeManifest(others, {});
  const auto share = StartShare(*other, others, 1, {0});
  FetchOptions options = FetchAt(0, {share.get()});
  options.give_up_after = absl::Seconds(2);
  const auto report = FetchAll(*manifest, folder() + "/got", options);
  EXPECT_TRUE(absl::IsDeadlineExceeded(report.status())) << report.status();
  EXPECT_THAT(std::string(report.status().message()), HasSubstr("shares another manifest"));
}

TEST_F(SwarmTest, ManifestOfAnotherModelIsRefused) {
  const std::string weights = MakeWeights("w", kBytes);
  const auto manifest = MakeManifest(weights, {.model = "gpt-8", .run = "", .step = 0});
  FetchOptions options = FetchAt(0, {});
  options.sources = {{MemberIp(1), 9}};
  options.model = "gpt-16";
  const auto fetch = Fetch::Start(*manifest, folder() + "/got", options);
  EXPECT_TRUE(absl::IsInvalidArgument(fetch.status()));
  EXPECT_THAT(std::string(fetch.status().message()), HasSubstr("'gpt-8', wanted is 'gpt-16'"));
}

TEST_F(SwarmTest, TakenPortAndForeignAddressAreNamed) {
  const std::string weights = MakeWeights("w", kBytes);
  const auto manifest = MakeManifest(weights, {});
  const auto share = StartShare(*manifest, weights, 1, {0});
  SwarmOptions same = At(1, {0});
  same.listen = share->address();
  const auto taken = Share::Start(*manifest, weights, same);
  EXPECT_TRUE(absl::IsFailedPrecondition(taken.status()));
  EXPECT_THAT(std::string(taken.status().message()), HasSubstr("another program has this port"));
  SwarmOptions foreign = At(1, {0});
  foreign.listen = {"192.0.2.1", 6881};
  const auto elsewhere = Share::Start(*manifest, weights, foreign);
  EXPECT_TRUE(absl::IsFailedPrecondition(elsewhere.status()));
  EXPECT_THAT(std::string(elsewhere.status().message()), HasSubstr("192.0.2.1:6881"));
}

TEST_F(SwarmTest, WhatIsThereIsNotFetchedAgain) {
  const std::string weights = MakeWeights("w", kBytes);
  const auto manifest = MakeManifest(weights, {});
  FetchOptions options = FetchAt(0, {});
  options.sources = {{MemberIp(1), 9}};  // nobody
  const auto there = FetchAll(*manifest, weights, options);
  ASSERT_TRUE(there.ok()) << there.status();
  EXPECT_EQ(there->kept_bytes, kBytes);
  std::ofstream(weights + "/model.bin") << "else";
  const auto other = FetchAll(*manifest, weights, options);
  EXPECT_TRUE(absl::IsAlreadyExists(other.status())) << other.status();
}

TEST_F(SwarmTest, PartialOfAnotherManifestIsRefused) {
  const std::string weights = MakeWeights("w", kBytes), others = MakeWeights("x", kBytes / 2);
  const auto manifest = MakeManifest(weights, {}), other = MakeManifest(others, {});
  FetchOptions options = FetchAt(0, {});
  options.sources = {{MemberIp(1), 9}};
  options.give_up_after = absl::Seconds(1);
  EXPECT_FALSE(FetchAll(*manifest, folder() + "/got", options).ok());
  const auto refused = FetchAll(*other, folder() + "/got", options);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("partial of another manifest"));
}

TEST_F(SwarmTest, TwoFetchesIntoOneFolderAreRefused) {
  const std::string weights = MakeWeights("w", kBytes);
  const auto manifest = MakeManifest(weights, {});
  FetchOptions options = FetchAt(0, {});
  options.sources = {{MemberIp(1), 9}};
  const auto first = Fetch::Start(*manifest, folder() + "/got", options);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = Fetch::Start(*manifest, folder() + "/got", options);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("another fetch is at work"));
}

TEST_F(SwarmTest, CancelEndsAtOnceAndKeepsThePartial) {
  const std::string weights = MakeWeights("w", kBytes);
  const auto manifest = MakeManifest(weights, {});
  FetchOptions options = FetchAt(0, {});
  options.sources = {{MemberIp(1), 9}};
  const auto fetch = Fetch::Start(*manifest, folder() + "/got", options);
  ASSERT_TRUE(fetch.ok()) << fetch.status();
  const absl::Time start = absl::Now();
  (*fetch)->Cancel();
  EXPECT_TRUE(absl::IsCancelled((*fetch)->Wait().status()));
  EXPECT_LT(absl::Now() - start, absl::Seconds(2));
  EXPECT_TRUE(std::filesystem::exists(folder() + "/got.partial"));
}

TEST_F(SwarmTest, RateLimitHoldsOnPrivateAddresses) {
  const std::string weights = MakeWeights("w", kBytes);
  const auto manifest = MakeManifest(weights, {});
  SwarmOptions slow = At(1, {0});
  slow.upload_bytes_per_s = 3 << 20;  // two seconds
  const auto share = Share::Start(*manifest, weights, slow);
  ASSERT_TRUE(share.ok()) << share.status();
  const auto report = FetchAll(*manifest, folder() + "/got", FetchAt(0, {share->get()}));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_GT(report->time, absl::Seconds(1.6));
}

// Bytes that rot on the sharer's disk are not given away, and sharing says so.
TEST_F(SwarmTest, ChangedFilesEndSharing) {
  const std::string weights = MakeWeights("w", kBytes);
  const auto manifest = MakeManifest(weights, {});
  std::fstream file(weights + "/model.bin", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(100);
  file.put('x').put('y').put('z');
  file.close();
  const auto share = StartShare(*manifest, weights, 1, {0});
  FetchOptions options = FetchAt(0, {share.get()});
  options.give_up_after = absl::Seconds(3);
  const auto report = FetchAll(*manifest, folder() + "/got", options);
  EXPECT_FALSE(report.ok());
  EXPECT_FALSE(std::filesystem::exists(folder() + "/got"));
  EXPECT_TRUE(absl::IsDataLoss(share->health())) << share->health();
}

// Of what was given before, and is not hashed again, and of what nobody asks for.
TEST_F(SwarmTest, AFileThatChangesWhileItIsSharedIsSeen) {
  const std::string weights = MakeWeights("w", kBytes);
  const auto manifest = MakeManifest(weights, {});
  const auto share = StartShare(*manifest, weights, 1, {0});
  ASSERT_TRUE(FetchAll(*manifest, folder() + "/got", FetchAt(0, {share.get()})).ok());
  EXPECT_TRUE(share->health().ok()) << share->health();
  const std::string path = weights + "/model.bin";
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(100);
  file.put('x');
  file.close();
  EXPECT_TRUE(absl::IsDataLoss(share->health())) << share->health();
  EXPECT_THAT(std::string(share->health().message()), HasSubstr("model.bin was written"));
  std::filesystem::remove(path);
  EXPECT_TRUE(absl::IsDataLoss(share->health())) << share->health();
}

TEST_F(SwarmTest, FiguresOutOfBoundsAreNamed) {
  const std::string weights = MakeWeights("w", kBytes);
  const auto manifest = MakeManifest(weights, {});
  SwarmOptions options = At(1, {0});
  options.dscp = 64;
  EXPECT_THAT(std::string(Share::Start(*manifest, weights, options).status().message()),
              HasSubstr("DSCP 64"));
  options = At(1, {0});
  options.upload_bytes_per_s = 0;
  EXPECT_THAT(std::string(Share::Start(*manifest, weights, options).status().message()),
              HasSubstr("rate of 0"));
  options = At(1, {});
  EXPECT_THAT(std::string(Share::Start(*manifest, weights, options).status().message()),
              HasSubstr("no members"));
}

}  // namespace
}  // namespace longhaul
