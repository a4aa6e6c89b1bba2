#include "plugin/backend/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "plugin/backend/process_group.h"
#include "tests/backend/ranks.h"
#include "tests/backend/thrown.h"

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

// A rank that is slow to read what it knows to be there.
class SlowReader final : public c10d::PrefixStore {
 public:
  using PrefixStore::PrefixStore;
  std::vector<std::vector<uint8_t>> multiGet(const std::vector<std::string>& keys) override {
    if (keys[0].starts_with("longhaul/connected/")) {
      reads.set_value();
      may_read.get_future().wait();
    }
    return PrefixStore::multiGet(keys);
  }
  std::promise<void> reads, may_read;
};

std::future<absl::Status> ConfirmAsync(c10d::Store& store, int rank, Rendezvous::StoreServer server,
                                       milliseconds timeout) {
  return std::async(std::launch::async, [&store, rank, server, timeout]() -> absl::Status {
    Rendezvous rendezvous(store, rank, 2, timeout);
    if (const auto met = rendezvous.Meet(absl::OkStatus(), ""); !met.ok()) return met.status();
    if (const auto all = rendezvous.Exchange(std::string("here"), ""); !all.ok()) {
      return all.status();
    }
    return rendezvous.Confirm(absl::OkStatus(), server);
  });
}

// With the rank's process the store would end, and the other rank would fail in the middle.
TEST(Rendezvous, TheRankThatServesTheStoreStaysUntilTheOthersHaveRead) {
  using Server = Rendezvous::StoreServer;
  const auto common = c10::make_intrusive<c10d::HashStore>();
  c10d::PrefixStore quick("", common);
  SlowReader slow("", common);
  auto server = ConfirmAsync(quick, 0, Server::kHere, std::chrono::seconds(20));
  auto reader = ConfirmAsync(slow, 1, Server::kElsewhere, std::chrono::seconds(20));
  slow.reads.get_future().wait();
  EXPECT_EQ(server.wait_for(milliseconds(500)), std::future_status::timeout);
  slow.may_read.set_value();
  EXPECT_EQ(reader.get(), absl::OkStatus());
  EXPECT_EQ(server.get(), absl::OkStatus());
}

TEST(Rendezvous, ARankThatServesNoStoreWaitsForNobodyAndNoneWaitsForEver) {
  using Server = Rendezvous::StoreServer;
  for (const Server where : {Server::kElsewhere, Server::kHere}) {
    const auto common = c10::make_intrusive<c10d::HashStore>();
    c10d::PrefixStore quick("", common);
    SlowReader slow("", common);
    const milliseconds timeout(where == Server::kHere ? 700 : 20'000);
    auto first = ConfirmAsync(quick, 0, where, timeout);
    auto reader = ConfirmAsync(slow, 1, Server::kElsewhere, timeout);
    EXPECT_EQ(first.wait_for(milliseconds(10'000)), std::future_status::ready);
    EXPECT_EQ(first.get(), absl::OkStatus());
    slow.may_read.set_value();
    EXPECT_EQ(reader.get(), absl::OkStatus());
  }
}

// What a rank of a build with other codecs says of itself.
class OtherCodecs final : public c10d::PrefixStore {
 public:
  using PrefixStore::PrefixStore;
  void set(const std::string& key, const std::vector<uint8_t>& value) override {
    std::string text(value.begin(), value.end());
    constexpr std::string_view kField = "codec_table=";
    if (const size_t at = text.find(kField); at != std::string::npos) {
      text.replace(at + kField.size(), text.find('\n', at) - at - kField.size(), "42");
    }
    PrefixStore::set(key, std::vector<uint8_t>(text.begin(), text.end()));
  }
};

TEST(Rendezvous, ARankWithAnotherTableOfCodecsIsRefusedByBoth) {
  const auto common = c10::make_intrusive<c10d::HashStore>();
  const auto nodes = MakeLoopbackNodes(2);
  const auto refusal = [&](int rank, c10::intrusive_ptr<c10d::Store> store) {
    return Thrown<c10::ValueError>([&] {
      auto options = c10::make_intrusive<ProcessGroupLonghaul::Options>();
      options->node = nodes[rank];
      options->group_name = "tables";
      options->timeout = std::chrono::seconds(20);
      ProcessGroupLonghaul(std::move(store), rank, 2, std::move(options));
    });
  };
  auto other = std::async(std::launch::async,
                          [&] { return refusal(1, c10::make_intrusive<OtherCodecs>("", common)); });
  const std::string here = refusal(0, c10::make_intrusive<c10d::PrefixStore>("", common));
  EXPECT_THAT(here, AllOf(HasSubstr("options differ"), HasSubstr("codec_table=42")));
  EXPECT_THAT(other.get(), HasSubstr("options differ"));
}

}  // namespace
}  // namespace longhaul
