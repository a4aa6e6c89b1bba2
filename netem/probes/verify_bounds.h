#pragma once

#include <optional>
#include <string>

#include "netem/probes/probe.h"
#include "netem/topology/rate_trace.h"

namespace longhaul {

// Within which a measurement of one path is in bounds, ends included.
struct RttBound {
  absl::Duration least, most;  // of the median
};
RttBound BoundOfRtt(const Topology& topology, const VerifyOptions& options, const PathSpec& path,
                    const RttSample& rtt);
RateRange BoundOfRate(const Topology& topology, const VerifyOptions& options, const PathSpec& path,
                      const RateSample& rate);
double BoundOfLoss(const PathSpec& path, const LossSample& loss);  // either way from the nominal

// How long `frames` full frames take at a rate; what a probe measures for: `wanted`, or as long as
// ten of them take. nullopt: longer than ten seconds, too slow to be judged.
absl::Duration TimeOfFrames(BitsPerSecond rate, int mtu, double frames);
std::optional<absl::Duration> MeasuringTime(BitsPerSecond rate, int mtu, absl::Duration wanted);

// What is wrong with a measurement of one path: measured, wanted, bound; "" when it is in bounds.
std::string ComplainOfRtt(const Topology& topology, const VerifyOptions& options,
                          const PathSpec& path, const RttSample& rtt);
std::string ComplainOfRate(const Topology& topology, const VerifyOptions& options,
                           const PathSpec& path, const RateSample& rate);
// What must be known to read a rate that is in bounds: of a trace, which stretch of it was measured;
// "" where there is nothing.
std::string NoteOnRate(const Topology& topology, const PathSpec& path, const RateSample& rate);
// What an echo may wait for the opportunities of rate traces, there and back; 0 without any.
absl::Duration MostTraceWait(const Topology& topology, int from, int to);
std::string ComplainOfLoss(const PathSpec& path, const LossSample& loss);

}  // namespace longhaul
