#pragma once

#include <string>

#include "netem/probes/probe.h"

namespace longhaul {

// What is wrong with a measurement of one path: measured, wanted, bound; "" when it is in bounds.
std::string ComplainOfRtt(const Topology& topology, const VerifyOptions& options,
                          const PathSpec& path, const RttSample& rtt);
std::string ComplainOfRate(const Topology& topology, const VerifyOptions& options,
                           const PathSpec& path, const RateSample& rate);
// What must be known to read a rate that is in bounds: of a trace, which stretch of it was
// measured;
// "" where there is nothing.
std::string NoteOnRate(const Topology& topology, const PathSpec& path, const RateSample& rate);
// What an echo may wait for the opportunities of rate traces, there and back; 0 without any.
absl::Duration MostTraceWait(const Topology& topology, int from, int to);
std::string ComplainOfLoss(const PathSpec& path, const LossSample& loss);

}  // namespace longhaul
