// What a gateway is asked for: forwards, and what the host's resolv.conf says.
#include "netem/gateway/gateway.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul {
namespace {

using testing::HasSubstr;

TEST(Gateway, ReadsForwards) {
  const auto plain = ParseForward("8080:a:80");
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->host_address, "127.0.0.1");
  EXPECT_EQ(plain->host_port, 8080);
  EXPECT_EQ(plain->node, "a");
  EXPECT_EQ(plain->node_port, 80);
  const auto open = ParseForward("0.0.0.0:1:eu-0:65535");
  ASSERT_TRUE(open.ok()) << open.status();
  EXPECT_EQ(ToString(*open), "0.0.0.0:1 > eu-0:65535");
}

TEST(Gateway, ForwardsLeadToNodesThatAreThereFromPortsOfTheirOwn) {
  Topology topology = *UniformTopology("colocated", 2);  // w0 and w1
  const auto check = [&](std::vector<PortForward> forwards) {
    return std::string(CheckGateway({std::move(forwards), {}}, topology).message());
  };
  EXPECT_EQ(check({}), "");
  EXPECT_EQ(check({{"127.0.0.1", 80, "w0", 80}, {"127.0.0.1", 81, "w1", 80}}), "");
  EXPECT_EQ(check({{"127.0.0.1", 80, "w0", 80}, {"127.0.0.2", 80, "w1", 80}}), "");
  EXPECT_THAT(check({{"127.0.0.1", 80, "w2", 80}}), HasSubstr("no node 'w2'"));
  EXPECT_THAT(check({{"127.0.0.1", 80, "w0", 80}, {"127.0.0.1", 80, "w1", 81}}),
              HasSubstr("given twice"));
}

TEST(Gateway, ReadsTheFirstNameServerThatItCanReachAndTheRules) {
  const HostResolver host = ParseResolver(
      "# a comment\nnameserver fd00::1\nnameserver\t192.0.2.53\nnameserver 192.0.2.54\n"
      "search lan example.org\noptions ndots:2\n");
  EXPECT_EQ(host.server, "192.0.2.53");
  EXPECT_EQ(host.rules, "search lan example.org\noptions ndots:2\n");
  EXPECT_EQ(ParseResolver("nameserver fd00::1\n").server, "");
  EXPECT_EQ(ParseResolver("").rules, "");
}

}  // namespace
}  // namespace longhaul
