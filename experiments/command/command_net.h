#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longhaul {

// The parts of `longhaul net`, one file each.
void AddNetLifeCommands(CLI::App& net, int* exit_status);  // up, list, set, down
// exec, shell, capture; *program: what exec runs
void AddNetNodeCommands(CLI::App& net, const std::vector<std::string>* program, int* exit_status);
void AddNetProbeCommand(CLI::App& net, int* exit_status);  // probe
void AddNetStatsCommand(CLI::App& net, int* exit_status);  // stats

// "LAB/NODE". InvalidArgument.
struct NodeName {
  std::string lab, node;
};
absl::StatusOr<NodeName> ParseNodeName(const std::string& text);

// "100 Mbit/s", "-" where there is none.
std::string RateText(const nlohmann::json& mbit);

// "a > b" of a path in a lab's answer.
std::string PathText(const nlohmann::json& path);

}  // namespace longhaul
