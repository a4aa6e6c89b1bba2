#include "plugin/backend/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

namespace longhaul {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using Peers = absl::StatusOr<Rendezvous::Peers>;

Peers MeetAndExchange(c10d::Store& store, int rank, int size,
                      const absl::StatusOr<std::string>& address, milliseconds timeout) {
  Rendezvous rendezvous(store, rank, size, timeout);
  const auto met = rendezvous.Meet(address.status(), " at home");
  return met.ok() ? rendezvous.Exchange(address, "") : met.status();
}

std::future<Peers> ExchangeAsync(c10d::Store& store, int rank, int size,
                                 absl::StatusOr<std::string> address) {
  return std::async(std::launch::async, [&store, rank, size, address] {
    return MeetAndExchange(store, rank, size, address, std::chrono::seconds(20));
  });
}

TEST(Rendezvous, FailureOfOneRankReachesTheOthersInItsOwnWords) {
  c10d::HashStore store;
  auto failing = ExchangeAsync(store, 0, 2, absl::FailedPreconditionError("no interface net7"));
  const absl::Status status = ExchangeAsync(store, 1, 2, std::string("here")).get().status();
  EXPECT_EQ(failing.get().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("rank 0 failed"), HasSubstr("no interface net7")));
}

TEST(Rendezvous, RankThatDoesNotShowUpIsNamed) {
  c10d::HashStore store;
  const absl::Status status =
      MeetAndExchange(store, 0, 2, std::string("here"), milliseconds(50)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 of 2 did not show up"));
}

TEST(Rendezvous, FailureThatIsFoundAfterMeetingReachesTheOthersToo) {
  c10d::HashStore store;
  auto failing = std::async(std::launch::async, [&store] {
    Rendezvous rendezvous(store, 0, 2, std::chrono::seconds(20));
    EXPECT_TRUE(rendezvous.Meet(absl::OkStatus(), "").ok());
    return rendezvous.Exchange(absl::FailedPreconditionError("no interface net7"), "").status();
  });
  const absl::Status status = ExchangeAsync(store, 1, 2, std::string("here")).get().status();
  EXPECT_EQ(failing.get().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("rank 0 failed"), HasSubstr("no interface net7")));
}

TEST(Rendezvous, EveryRankLearnsWhereTheOthersAre) {
  c10d::HashStore store;
  const auto meet = [&store](int rank, const std::string& where) {
    return std::async(std::launch::async, [&store, rank, where] {
      return Rendezvous(store, rank, 3, std::chrono::seconds(20)).Meet(absl::OkStatus(), where);
    });
  };
  auto first = meet(0, "here"), second = meet(1, ""), third = meet(2, "far away");
  for (auto* met : {&first, &second, &third}) {
    EXPECT_THAT(met->get().value(), ElementsAre("here", "", "far away"));
  }
}

TEST(Rendezvous, ProcessesThatAreGoneAreNotBelievedWhateverTheyLeftInTheStore) {
  c10d::HashStore store;
  auto first = ExchangeAsync(store, 0, 2, std::string("old 0"));
  ASSERT_TRUE(ExchangeAsync(store, 1, 2, std::string("old 1")).get().ok());
  const std::string old_nonce = first.get()->nonce;
  // A third and a fourth process die on their own, one of them with an error.
  EXPECT_FALSE(MeetAndExchange(store, 1, 3, std::string("dead"), milliseconds(100)).ok());
  EXPECT_FALSE(MeetAndExchange(store, 0, 3, absl::InternalError("old"), milliseconds(100)).ok());

  // The one that comes first must wait for the other, longer than it believes a greeting.
  auto early = ExchangeAsync(store, 1, 2, std::string("new 1"));
  EXPECT_EQ(early.wait_for(milliseconds(1200)), std::future_status::timeout);
  const Peers late = ExchangeAsync(store, 0, 2, std::string("new 0")).get();
  const Peers other = early.get();
  ASSERT_TRUE(late.ok() && other.ok()) << late.status() << other.status();
  EXPECT_THAT(late->addresses, ElementsAre("new 0", "new 1"));
  EXPECT_THAT(other->addresses, ElementsAre("new 0", "new 1"));
  EXPECT_EQ(late->nonce, other->nonce);
  EXPECT_NE(late->nonce, old_nonce);
}

TEST(Rendezvous, WhoMeetsOnlyTheDeadSaysSo) {
  c10d::HashStore store;
  EXPECT_FALSE(MeetAndExchange(store, 1, 2, std::string("dead"), milliseconds(50)).ok());
  const absl::Status status =
      MeetAndExchange(store, 0, 2, std::string("here"), milliseconds(700)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("rank 1 of 2 did not show up"), HasSubstr("700 ms"),
                    HasSubstr("a process that has gone")));
}

}  // namespace
}  // namespace longhaul
