#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "netem/emulator.h"

namespace longhaul {

// What one path was measured to be, next to what it should be.
struct RttSample {
  absl::Duration nominal;  // both delays, and the request's and the reply's time on rated stages
  absl::Duration min, median, mean, p99, max;
  absl::Duration deviation;  // standard deviation
  int sent = 0;
  int received = 0;
};
struct RateSample {
  BitsPerSecond
      nominal_goodput;  // at MTU 1500 TCP: rate x 1448/1514, UDP: rate x 1472/1514; of IPv6 20 bytes less
  BitsPerSecond goodput;           // receiver's own clock, after the warm-up
  std::string congestion_control;  // "udp" for a UDP overload probe
  absl::Duration measured_for;
};

struct LossSample {
  double nominal = 0;  // MeanLoss of the path
  int64_t sent = 0;
  int64_t received = 0;
  double loss() const {
    return sent == 0 ? 0 : 1 - static_cast<double>(received) / static_cast<double>(sent);
  }
};

// ICMP echo between two nodes on idle links; the kernel stamps the replies.
absl::StatusOr<RttSample> ProbeRtt(const Emulator& emulator, int from, int to, int count,
                                   absl::Duration interval, IpVersion ip = IpVersion::kIpv4);

// One TCP flow from -> to; goodput at the receiver between two of its own timestamps.
// `congestion_control` empty: the node's own.
absl::StatusOr<RateSample> ProbeRate(const Emulator& emulator, int from, int to,
                                     absl::Duration warm_up, absl::Duration measure,
                                     std::string_view congestion_control,
                                     IpVersion ip = IpVersion::kIpv4);

// Full-sized datagrams from -> to at kUdpOverload times the path's nominal rate; what arrives after
// the warm-up. Needs no ramp, so it is the quick way on long round trips, and it sees loss as loss.
// FailedPrecondition on a path without any rate.
inline constexpr double kUdpOverload = 1.1;
absl::StatusOr<RateSample> ProbeUdpRate(const Emulator& emulator, int from, int to,
                                        absl::Duration warm_up, absl::Duration measure,
                                        IpVersion ip = IpVersion::kIpv4);

// `count` datagrams of a full frame, evenly at `rate` (below the path's own, or the queue loses
// some); waits until the path is empty.
absl::StatusOr<LossSample> ProbeLoss(const Emulator& emulator, int from, int to, int64_t count,
                                     BitsPerSecond rate, IpVersion ip = IpVersion::kIpv4);

// Of the share of `packets` that the path loses, bursts counted in.
double LossStandardError(const PathSpec& path, int64_t packets);

// The least of the path's own rate and the access lines it crosses; nullopt: nothing limits it.
std::optional<BitsPerSecond> NominalRate(const Topology& topology, const PathSpec& path);

// An echo's whole frame, as ping sends by default: Ethernet, IP and ICMP headers and 56 bytes.
constexpr int EchoFrameBytes(IpVersion ip) {
  return 14 + (ip == IpVersion::kIpv4 ? 20 : 40) + 8 + 56;
}

// What an idle echo of `frame_bytes` (Ethernet header included) should take there and back.
absl::Duration NominalEchoRtt(const Topology& topology, const PathSpec& path, int frame_bytes);

// One line per ordered path: nominal, measured, bound, verdict.
struct PathVerdict {
  int from, to;
  RttSample rtt;
  std::optional<RateSample> rate;
  std::optional<LossSample> loss;
  PathCounters counters;
  bool ok;
  std::string why;         // when not ok: measured, bound, what to do
  std::string not_judged;  // "": its rate was, or was not asked for, or it has none
};

struct VerifyOptions {
  int pings = 20;
  bool measure_rate = true;
  absl::Duration rate_warm_up = absl::Seconds(1);
  absl::Duration rate_measure = absl::Seconds(2);
  // The link gate of docs/netem.md.
  double rate_tolerance = 0.05;
  absl::Duration rtt_tolerance = absl::Milliseconds(2);
  double rtt_tolerance_fraction = 0.05;
  // Of a second of datagrams at half the rate, at most; 0: the echoes' loss only. Bound: 3 standard
  // errors and one datagram.
  int64_t loss_datagrams = 0;
  IpVersion ip = IpVersion::kIpv4;
  int attempts = 3;  // of one path before its verdict stands; a busy machine disturbs short probes
  std::vector<std::pair<int, int>> pairs;  // empty: every path of the topology
};

// Idle RTT of every path, then the rate of every path with one, then loss. Echoes go all at once
// where they load nothing; where they would wait for each other on a slow line, those of one line
// after those of another, and each far enough behind the one before it. Rates: several at once where
// they share no line and the machine can carry their sum; with TCP where slow start fits the
// warm-up, and with UDP overload else; for ten full frames at least. A rate that does not carry them
// in ten seconds is not judged. Each probe waits until the queues that the one before it filled are
// empty.
absl::StatusOr<std::vector<PathVerdict>> VerifyLinks(const Emulator& emulator,
                                                     const VerifyOptions& options);

}  // namespace longhaul
