#pragma once

#include <string>

#include "netem/probes/probe.h"

namespace longhaul {

// What is wrong with a measurement of one path: measured, wanted, bound; "" when it is in bounds.
std::string ComplainOfRtt(const Topology& topology, const VerifyOptions& options,
                          const PathSpec& path, const RttSample& rtt);
std::string ComplainOfRate(const Topology& topology, const VerifyOptions& options,
                           const PathSpec& path, const RateSample& rate);
std::string ComplainOfLoss(const PathSpec& path, const LossSample& loss);

}  // namespace longhaul
