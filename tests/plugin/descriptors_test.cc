// File descriptors: at every limit either an error that says the figures, or it works. UCX itself
// would end the process.
#include <sys/resource.h>

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugin/core/ucx/descriptors.h"
#include "tests/plugin/group_fixture.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

rlim_t OpenNow() {
  rlim_t open = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    open += entry.exists() || true;
  }
  return open - 1;
}

// As many may be open as are now, and so many more.
class Room {
 public:
  explicit Room(rlim_t more) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    limit_ = OpenNow() + more;
    const rlimit limit{limit_, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  ~Room() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  rlim_t limit() const { return limit_; }

 private:
  rlimit before_ = {};
  rlim_t limit_ = 0;
};

absl::StatusOr<std::vector<float>> Summed(int ranks) {
  std::vector<std::shared_ptr<Node>> nodes;
  std::vector<std::string> addresses;
  for (int rank = 0; rank < ranks; ++rank) {
    NodeOptions options = OptionsFor(TransportKind::kUcx);
    options.expected_peers = ranks - 1;
    absl::StatusOr<std::shared_ptr<Node>> node = Node::Create(options);
    if (!node.ok()) return node.status();
    addresses.push_back((*node)->address());
    nodes.push_back(*std::move(node));
  }
  std::vector<std::shared_ptr<Group>> groups;
  for (int rank = 0; rank < ranks; ++rank) {
    auto group = Group::Create(nodes[static_cast<size_t>(rank)],
                               {.name = "x", .rank = rank, .size = ranks}, addresses);
    if (!group.ok()) return group.status();
    groups.push_back(*std::move(group));
  }
  std::vector<std::vector<float>> x(static_cast<size_t>(ranks), {1.0f});
  std::vector<Outcome> sums(static_cast<size_t>(ranks));
  for (size_t r = 0; r < sums.size(); ++r) {
    groups[r]->AllReduce(F32(x[r]), ReduceOp::kSum, sums[r].done());
  }
  for (const Outcome& sum : sums) {
    if (absl::Status s = sum.Wait(); !s.ok()) return s;
  }
  return x[0];
}

TEST(Descriptors, AtEveryLimitAnErrorWithBothFiguresOrItWorks) {
  {  // UBSan opens a pipe when it meets a class for the first time; at a limit it could not
    const Room room(10);
    EXPECT_FALSE(Summed(2).ok());
  }
  for (const int ranks : {2, 3}) {
    int failed = 0, worked = 0;
    for (rlim_t more = 0; more < 90; more += (worked > 3 ? 10 : 1)) {
      const Room room(more);
      const auto sum = Summed(ranks);
      if (sum.ok()) {
        EXPECT_EQ(sum->front(), static_cast<float>(ranks));
        ++worked;
        continue;
      }
      ++failed;
      EXPECT_EQ(worked, 0) << more;
      EXPECT_EQ(sum.status().code(), absl::StatusCode::kFailedPrecondition) << sum.status();
      const std::string said(sum.status().message());
      EXPECT_THAT(said, HasSubstr("file descriptors are needed"));
      EXPECT_THAT(said, HasSubstr("the limit is " + std::to_string(room.limit()) + ":"));
      EXPECT_EQ(said.find('\n'), std::string::npos);
    }
    EXPECT_GT(failed, 20);
    EXPECT_GT(worked, 3);
  }
}

TEST(Descriptors, WhatIsNeededIsAskedForAtOnceAndOfNewPeersOnly) {
  const rlim_t open = OpenNow();
  {
    const Room room(17);  // what a node takes itself, and no more
    const std::string said(CheckDescriptors(UcxNodeIs::kToBeMade, 5).message());
    EXPECT_THAT(said, HasSubstr(std::to_string(open + 13 + 5 * 4 + 1) + " file descriptors"));
    EXPECT_THAT(said, HasSubstr("ulimit -n " + std::to_string(open + 13 + 5 * 4 + 1)));
    EXPECT_EQ(CheckDescriptors(UcxNodeIs::kToBeMade, 0), absl::OkStatus());
    EXPECT_EQ(CheckDescriptors(UcxNodeIs::kThere, 4), absl::OkStatus());
    EXPECT_FALSE(CheckDescriptors(UcxNodeIs::kThere, 5).ok());
  }
  const Room room(0);
  EXPECT_EQ(CheckDescriptors(UcxNodeIs::kThere, 0), absl::OkStatus()) << "nothing is opened";
}

TEST(Descriptors, ANodeAsksForThePeersThatAreExpectedAndAGroupForThoseThatAreNew) {
  NodeOptions options = OptionsFor(TransportKind::kUcx);
  {
    const Room room(17);  // a node's, a file's, and three of the first peer's four
    options.expected_peers = 1;
    EXPECT_THAT(std::string(Node::Create(options).status().message()),
                HasSubstr("4 for each of 1 peers"));
    options.expected_peers = 0;
    EXPECT_TRUE(Node::Create(options).ok());
  }
  const Cluster cluster(TransportKind::kUcx, 3);
  const GroupOptions of_three{.name = "x", .rank = 0, .size = 3};
  const Room room(8);  // two peers' four each, and no file
  const absl::Status refused =
      Group::Create(cluster.nodes[0], of_three, cluster.addresses()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("4 for each of 2 peers"));
}

// Its peers wait, when they end, for the end of their connections to it.
TEST(Descriptors, AnEndedNodeHoldsNoneThoughSomebodyHasAWeakPointerToIt) {
  const rlim_t before = OpenNow();
  std::shared_ptr<Node> node = Node::Create(OptionsFor(TransportKind::kUcx)).value();
  const std::weak_ptr<Node> weak = node;
  EXPECT_GT(OpenNow(), before);
  node.reset();
  EXPECT_EQ(OpenNow(), before);
  EXPECT_TRUE(weak.expired());
}

}  // namespace
}  // namespace longhaul
