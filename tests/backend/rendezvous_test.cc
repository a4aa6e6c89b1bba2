#include "plugin/backend/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <map>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "plugin/backend/process_node.h"

namespace longhaul {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using Peers = absl::StatusOr<Rendezvous::Peers>;

std::future<Peers> ExchangeAsync(c10d::Store& store, int rank, int size,
                                 absl::StatusOr<std::string> address) {
  return std::async(std::launch::async, [&store, rank, size, address] {
    return Rendezvous(store, rank, size, std::chrono::seconds(20)).Exchange(address, "");
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
  Rendezvous alone(store, 0, 2, milliseconds(50));
  const absl::Status status = alone.Exchange(std::string("here"), "").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 of 2 did not show up"));
}

TEST(Rendezvous, ProcessesThatAreGoneAreNotBelievedWhateverTheyLeftInTheStore) {
  c10d::HashStore store;
  auto first = ExchangeAsync(store, 0, 2, std::string("old 0"));
  ASSERT_TRUE(ExchangeAsync(store, 1, 2, std::string("old 1")).get().ok());
  const std::string old_nonce = first.get()->nonce;
  // A third and a fourth process die on their own, one of them with an error.
  EXPECT_FALSE(Rendezvous(store, 1, 3, milliseconds(100)).Exchange(std::string("dead"), "").ok());
  EXPECT_FALSE(
      Rendezvous(store, 0, 3, milliseconds(100)).Exchange(absl::InternalError("old"), "").ok());

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
  EXPECT_FALSE(Rendezvous(store, 1, 2, milliseconds(50)).Exchange(std::string("dead"), "").ok());
  const absl::Status status =
      Rendezvous(store, 0, 2, milliseconds(700)).Exchange(std::string("here"), "").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("rank 1 of 2 did not show up"), HasSubstr("700 ms"),
                    HasSubstr("a process that has gone")));
}

TEST(ProcessNode, WhatALaterGroupAsksForOtherwiseIsAnErrorThatNamesBothValues) {
  const auto node = ProcessNode(
      {.interface = "lo", .peer_deadline = absl::Seconds(20), .credit_bytes = int64_t{1} << 20});
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_EQ(*ProcessNode({}), *node);
  EXPECT_EQ(*ProcessNode({.peer_deadline = absl::Seconds(20)}), *node);
  const auto refusal = [](const NodeWishes& wishes) {
    const absl::Status status = ProcessNode(wishes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal({.interface = "eth7"}), HasSubstr("interface 'lo', 'eth7'"));
  EXPECT_THAT(refusal({.peer_deadline = absl::Seconds(5)}), HasSubstr("peer_deadline 20s, 5s"));
  EXPECT_THAT(refusal({.credit_bytes = 65536}), HasSubstr("credit_bytes 1048576, 65536"));
  EXPECT_THAT(refusal({.shared_memory = true}), HasSubstr("shared_memory"));
  EXPECT_THAT(refusal({.ucx_environment = true}), HasSubstr("ucx_environment"));
}

}  // namespace
}  // namespace longhaul
