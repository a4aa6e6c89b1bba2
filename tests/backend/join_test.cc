#include "plugin/backend/join.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <future>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "plugin/core/ucx/interfaces.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr uint64_t kHere = 7, kElsewhere = 8;

NodeScope Scope(std::vector<Whereabouts> ranks) { return ScopeOf(ranks); }

TEST(ScopeOf, LoopbackOnlyWhereAllRanksShareOneNamespaceAndNobodyNamedAnInterface) {
  const Whereabouts here{.network_id = kHere}, there{.network_id = kElsewhere};
  const Whereabouts named{.network_id = kHere, .named = true};
  const Whereabouts up{.network_id = kHere, .has_node = true};
  EXPECT_EQ(Scope({here}), NodeScope::kThisHost);
  EXPECT_EQ(Scope({here, here, here}), NodeScope::kThisHost);
  EXPECT_EQ(Scope({here, here, there}), NodeScope::kNetwork);
  EXPECT_EQ(Scope({there, here, here}), NodeScope::kNetwork);
  EXPECT_EQ(Scope({here, here, named}), NodeScope::kNetwork);
  EXPECT_EQ(Scope({up, up}), NodeScope::kNetwork) << "they have a connection already";
  EXPECT_EQ(Scope({up, here}), NodeScope::kThisHost) << "one has none";
}

TEST(Whereabouts, ReadAsWritten) {
  for (const Whereabouts& rank :
       {Whereabouts{.network_id = ~uint64_t{0}, .named = true, .source = "10.0.0.7"},
        Whereabouts{.network_id = 1, .has_node = true}}) {
    const absl::StatusOr<Whereabouts> read = ParseWhereabouts(ToText(rank));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(ToText(*read), ToText(rank));
    EXPECT_EQ(read->named, rank.named);
    EXPECT_EQ(read->source, rank.source);
  }
  for (const char* text : {"", "x - - 10.0.0.7", "5 - -", "5 - - a b"}) {
    EXPECT_FALSE(ParseWhereabouts(text).ok()) << text;
  }
}

c10::intrusive_ptr<c10d::TCPStore> TcpStore(uint16_t port, bool server) {
  c10d::TCPStoreOptions options;
  options.port = port;
  options.isServer = server;
  options.waitWorkers = false;
  return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
}

TEST(ServerOf, IsTheProcessThatListensAtTheStoresPort) {
  using Server = Rendezvous::StoreServer;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t other = ::fork();
  if (other == 0) {
    const auto store = TcpStore(0, true);
    const uint16_t port = store->getPort();
    if (::write(ends[1], &port, sizeof(port)) == sizeof(port)) ::pause();
    ::_exit(1);
  }
  uint16_t port = 0;
  ASSERT_EQ(::read(ends[0], &port, sizeof(port)), static_cast<ssize_t>(sizeof(port)));
  const auto far = TcpStore(port, false);
  EXPECT_EQ(ServerOf(*far), Server::kElsewhere);
  const auto near = TcpStore(0, true);
  EXPECT_EQ(ServerOf(*near), Server::kHere);
  EXPECT_EQ(ServerOf(*TcpStore(near->getPort(), false)), Server::kHere);
  c10d::PrefixStore twice("b", c10::make_intrusive<c10d::PrefixStore>("a", near));
  EXPECT_EQ(ServerOf(twice), Server::kHere);
  c10d::HashStore hash;
  EXPECT_EQ(ServerOf(hash), Server::kElsewhere);
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
}

absl::StatusOr<Joined> JoinAs(c10d::Store& store, int rank, NodeWishes wishes) {
  Rendezvous rendezvous(store, rank, 2, std::chrono::seconds(20));
  return Join(rendezvous, store,
              {.able = absl::OkStatus(), .node = nullptr, .wishes = wishes, .agreement = ""});
}

// Both ranks live in this process, so the node that it shares is the same.
absl::StatusOr<Joined> JoinTwice(const NodeWishes& wishes) {
  c10d::HashStore store;
  auto other = std::async(std::launch::async, [&] { return JoinAs(store, 1, wishes); });
  absl::StatusOr<Joined> own = JoinAs(store, 0, wishes);
  const absl::StatusOr<Joined> theirs = other.get();
  EXPECT_EQ(own.ok(), theirs.ok());
  if (own.ok() && theirs.ok()) {
    EXPECT_EQ(own->node, theirs->node);
  }
  return own;
}

TEST(Join, RanksOfOneHostUseLoopbackAndSayWhy) {
  const absl::StatusOr<Joined> joined = JoinTwice({});
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_THAT(joined->node->description(), StartsWith("ucx tcp/lo (every rank is on this host)"));
  EXPECT_EQ(LiveProcessNode(NodeScope::kNetwork), nullptr) << "a group across hosts makes its own";
  EXPECT_EQ(LiveProcessNode(NodeScope::kThisHost), joined->node);
}

TEST(Join, AnInterfaceThatOptionsNameWinsOverTheEnvironments) {
  ::setenv("LONGHAUL_INTERFACE", "nosuch0", 1);
  const absl::StatusOr<Joined> by_options = JoinTwice({.interface = "lo"});
  ::unsetenv("LONGHAUL_INTERFACE");
  ASSERT_TRUE(by_options.ok()) << by_options.status();
  EXPECT_THAT(by_options->node->description(), StartsWith("ucx tcp/lo (named)"));
  EXPECT_EQ(LiveProcessNode(NodeScope::kNetwork), by_options->node);
}

TEST(Join, TheEnvironmentNamesTheInterfaceWhereOptionsDoNot) {
  ::setenv("LONGHAUL_INTERFACE", "lo", 1);
  const absl::StatusOr<Joined> good = JoinTwice({});
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_THAT(good->node->description(), StartsWith("ucx tcp/lo (LONGHAUL_INTERFACE)"));
  ::setenv("LONGHAUL_INTERFACE", "nosuch0", 1);
  EXPECT_TRUE(JoinTwice({}).ok()) << "the node is there already";
}

TEST(Join, AnInterfaceOfTheEnvironmentThatIsNotThereIsNamedWithTheVariable) {
  ::setenv("LONGHAUL_INTERFACE", "nosuch0", 1);
  const absl::Status status = JoinTwice({}).status();
  ::unsetenv("LONGHAUL_INTERFACE");
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("no interface 'nosuch0' (LONGHAUL_INTERFACE)"), HasSubstr("lo")));
}

TEST(ProcessNode, WhatALaterGroupAsksForOtherwiseIsAnErrorThatNamesBothValues) {
  const auto ask = [](const NodeWishes& wishes) {
    return ProcessNode(wishes, NodeScope::kNetwork);
  };
  const auto node = ask(
      {.interface = "lo", .peer_deadline = absl::Seconds(20), .credit_bytes = int64_t{1} << 20});
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_EQ(*ask({}), *node);
  EXPECT_EQ(*ask({.peer_deadline = absl::Seconds(20)}), *node);
  const auto refusal = [&](const NodeWishes& wishes) {
    const absl::Status status = ask(wishes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal({.interface = "eth7"}), HasSubstr("interface 'lo', 'eth7'"));
  EXPECT_THAT(refusal({.peer_deadline = absl::Seconds(5)}), HasSubstr("peer_deadline 20s, 5s"));
  EXPECT_THAT(refusal({.credit_bytes = 65536}), HasSubstr("credit_bytes 1048576, 65536"));
  EXPECT_THAT(refusal({.shared_memory = true}), HasSubstr("shared_memory"));
  EXPECT_THAT(refusal({.ucx_environment = true}), HasSubstr("ucx_environment"));
  const auto local = ProcessNode({}, NodeScope::kThisHost);
  ASSERT_TRUE(local.ok()) << local.status();
  EXPECT_NE(*local, *node);
}

}  // namespace
}  // namespace longhaul
