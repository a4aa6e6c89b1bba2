#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "plugin/swarm/swarm.h"

namespace longhaul {

// The parts of `longhaul weights`, one file each.
void AddWeightsShareCommand(CLI::App& weights, int* exit_status);
void AddWeightsFetchCommand(CLI::App& weights, int* exit_status);
void AddWeightsEstimateCommand(CLI::App& weights, int* exit_status);

// What both say of the swarm.
struct SwarmFlags {
  std::string listen;  // ADDR:PORT; of a fetch also "": the address that leads to the first source
  std::vector<std::string> members;
  std::string upload_rate, download_rate;  // as in `net set`; "": no limit
  int dscp = kLowerEffortDscp;
  bool json = false, quiet = false;
};
void AddSwarmOptions(CLI::App& command, SwarmFlags& flags);
// Notices go to stderr, one a line.
absl::StatusOr<SwarmOptions> OptionsOf(const SwarmFlags& flags);

// The schema of both commands' documents.
inline constexpr char kWeightsSchema[] = "longhaul.weights/1";

// "67.1 MB": 10^6 bytes.
std::string Megabytes(int64_t bytes);

}  // namespace longhaul
