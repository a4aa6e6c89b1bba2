// How many datagrams of a burst an idle link takes: as many as its queue holds, and what the rate
// sent while the burst came. On every emulator that this machine can run, as a path's own queue and
// as an access line's.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <tuple>
#include <vector>

#include "netem/probes/probe_sockets.h"
#include "tests/netem/judgement.h"
#include "tests/netem/lab_harness.h"
#include "tests/netem/wake_control.h"

namespace longhaul {
namespace {

constexpr int kBurst = 300;
constexpr int64_t kQueuePackets = 20;
constexpr absl::Duration kDelay = absl::Milliseconds(200);

enum class Written { kAsPath, kAsLine };

// 200 ms one way: a queue that the delay line is part of would take 165 or 180 datagrams more.
Topology Link(Written written, BitsPerSecond rate) {
  Topology topology = *UniformTopology("continental-us", 2);
  const QueueDepth queue{QueueDepth::Unit::kPackets, static_cast<double>(kQueuePackets)};
  for (PathSpec& path : topology.paths) {
    path.delay = kDelay;
    path.rate.reset();
    if (written == Written::kAsLine || path.from != 0) continue;
    path.rate = rate;
    path.queue = queue;
  }
  if (written == Written::kAsLine) topology.nodes[0].access = AccessSpec{rate, Mbit(1000), queue};
  return topology;
}

struct Passed {
  int64_t datagrams = 0;
  absl::Duration sent_in;
};

Passed SendBurst(const Emulator& emulator, size_t payload_bytes) {
  SocketAddress address, own;
  auto receiver = BoundSocket(emulator, 1, IpVersion::kIpv4, SOCK_DGRAM, address);
  auto sender = BoundSocket(emulator, 0, IpVersion::kIpv4, SOCK_DGRAM, own);
  EXPECT_TRUE(receiver.ok() && sender.ok());
  const std::vector<char> payload(payload_bytes, 'x');
  Passed passed;
  const absl::Time start = MonotonicNow();
  for (int sent = 0; sent < kBurst;) {
    const ssize_t bytes =
        sendto(sender->get(), payload.data(), payload.size(), 0, address.get(), address.bytes);
    sent += bytes == static_cast<ssize_t>(payload_bytes) ? 1 : 0;
    // The guest's one CPU may have left them all in the sender's buffer.
    if (bytes < 0) {
      EXPECT_TRUE(WaitFor(*sender, POLLOUT, absl::Seconds(1)));
    }
  }
  passed.sent_in = MonotonicNow() - start;
  // Nothing is on its way any more once nothing came for longer than a datagram can take.
  while (WaitFor(*receiver, POLLIN, kDelay + absl::Milliseconds(500))) {
    while (recv(receiver->get(), nullptr, 0, MSG_TRUNC | MSG_DONTWAIT) >= 0) ++passed.datagrams;
  }
  return passed;
}

class Burst : public testing::TestWithParam<std::tuple<EmulatorKind, Written>> {};

void ExpectQueue(EmulatorKind kind, Written written, BitsPerSecond rate, size_t payload_bytes) {
  WithEmulator(kind, Link(written, rate), [&](Emulator& emulator) {
    ExpectInBounds(CanJudgeRate, [&] {
      const Passed passed = SendBurst(emulator, payload_bytes);
      const double frame_s = static_cast<double>(payload_bytes + 42) * 8 / rate.value;
      const double most =
          kQueuePackets + std::ceil(absl::ToDoubleSeconds(passed.sent_in) / frame_s) + 1;
      printf("  sent in %.2f ms, %.3f ms a frame\n", absl::ToDoubleMilliseconds(passed.sent_in),
             1e3 * frame_s);
      return Judge("datagrams of a burst that passed", kQueuePackets,
                   static_cast<double>(passed.datagrams), kQueuePackets, most);
    });
  });
}

TEST_P(Burst, OfFullFramesTheQueueTakesItsPackets) {
  ExpectQueue(std::get<0>(GetParam()), std::get<1>(GetParam()), Mbit(10), 1472);
}

// Counted in full frames, the queue would take 213 of these.
TEST_P(Burst, OfSmallPacketsTheQueueTakesAsMany) {
  ExpectQueue(std::get<0>(GetParam()), std::get<1>(GetParam()), Mbit(1), 100);
}

INSTANTIATE_TEST_SUITE_P(Links, Burst,
                         testing::Combine(testing::Values(EmulatorKind::kTap, EmulatorKind::kNetem),
                                          testing::Values(Written::kAsPath, Written::kAsLine)),
                         [](const auto& test) {
                           return std::string(ToString(std::get<0>(test.param))) +
                                  (std::get<1>(test.param) == Written::kAsPath ? "_path" : "_line");
                         });

}  // namespace
}  // namespace longhaul
