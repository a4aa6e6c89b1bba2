#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "netem/emulator.h"

namespace longhaul {

// What one path was measured to be, next to what it should be.
struct RttSample {
  absl::Duration nominal;
  absl::Duration min, median, mean, p99;
  int sent = 0;
  int received = 0;
};
struct RateSample {
  BitsPerSecond nominal_goodput;  // rate x 1448/1514 at MTU 1500
  BitsPerSecond goodput;          // receiver's own clock, after the warm-up
  std::string congestion_control;
  absl::Duration measured_for;
};

// ICMP or UDP echo between two nodes on idle links.
absl::StatusOr<RttSample> ProbeRtt(const Emulator& emulator, int from, int to, int count,
                                   absl::Duration interval);

// One TCP flow from -> to; goodput at the receiver between two of its own timestamps.
absl::StatusOr<RateSample> ProbeRate(const Emulator& emulator, int from, int to,
                                     absl::Duration warm_up, absl::Duration measure,
                                     std::string_view congestion_control);

// One line per ordered path: nominal, measured, bound, verdict.
struct PathVerdict {
  int from, to;
  RttSample rtt;
  std::optional<RateSample> rate;
  PathCounters counters;
  bool ok;
  std::string why;  // when not ok: measured, bound, what to do
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
  std::vector<std::pair<int, int>> pairs;  // empty: every path of the topology
};
absl::StatusOr<std::vector<PathVerdict>> VerifyLinks(const Emulator& emulator,
                                                     const VerifyOptions& options);

}  // namespace longhaul
