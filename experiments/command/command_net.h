#pragma once

#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "netem/lab_control/lab_daemon.h"

namespace longhaul {

// The parts of `longhaul net`, one file each.
void AddNetLifeCommands(CLI::App& net, int* exit_status);  // up, list, set, down
// exec, shell; *program: what exec runs
void AddNetNodeCommands(CLI::App& net, const std::vector<std::string>* program, int* exit_status);
// run; *program: what it runs
void AddNetRunCommand(CLI::App& net, const std::vector<std::string>* program, int* exit_status);
void AddNetCaptureCommand(CLI::App& net, int* exit_status);  // capture
void AddNetProbeCommand(CLI::App& net, int* exit_status);    // probe
void AddNetStatsCommand(CLI::App& net, int* exit_status);    // stats

// What a lab is built of, as options of `up` and `run`.
struct LinkOptions {
  std::string links;  // a profile or a file; "": the figures alone
  int nodes = 0;      // of a profile or of figures alone; 0: two
  std::string emulator = "auto";
  std::vector<std::string> figures = {};  // words of `set`, for every path
  std::vector<std::string> traces = {};   // "FILE" or "a>b=FILE"
  EmulatorOptions emulation = {};
};
void AddLinkOptions(CLI::App& command, const std::shared_ptr<LinkOptions>& options);
// With the name of the profile or file; "lab" where neither is given.
absl::StatusOr<LabSpec> LabOf(const LinkOptions& options);

// "LAB/NODE". InvalidArgument.
struct NodeName {
  std::string lab, node;
};
absl::StatusOr<NodeName> ParseNodeName(const std::string& text);

// "100 Mbit/s", "-" where there is none.
std::string RateText(const nlohmann::json& mbit);

// Where jitter is longer than a frame takes: frames keep their order, so late ones hold back those
// behind them and the mean delay grows; "" where it is not, or there is no rate.
std::string JitterText(const nlohmann::json& paths);

// A line for every path that is down, with what brings it up; "" for none.
std::string DownText(const std::string& lab, const nlohmann::json& paths);

// "reorder 1 %, corrupt 0.1 %, DOWN": what a path has beside its figures; "" for nothing.
std::string BesideText(const nlohmann::json& path);

// What a lab's way out is, in a line or two; "" where it has none.
std::string GatewayText(const nlohmann::json& answer);

// "a > b" of a path in a lab's answer.
std::string PathText(const nlohmann::json& path);

}  // namespace longhaul
