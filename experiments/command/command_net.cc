#include "experiments/command/command_net.h"

#include <fmt/format.h>

#include "experiments/command/command.h"

namespace longhaul {

absl::StatusOr<NodeName> ParseNodeName(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == text.size()) {
    return absl::InvalidArgumentError(fmt::format("'{}': want LAB/NODE", text));
  }
  return NodeName{text.substr(0, slash), text.substr(slash + 1)};
}

std::string RateText(const nlohmann::json& mbit) {
  return mbit.is_number() ? fmt::format("{:g} Mbit/s", mbit.get<double>()) : "-";
}

std::string PathText(const nlohmann::json& path) {
  return fmt::format("{} > {}", path.value("from", "?"), path.value("to", "?"));
}

void AddNetCommand(CLI::App& app, const std::vector<std::string>* program, int* exit_status) {
  CLI::App* net = app.add_subcommand(
      "net",
      "labs of shaped links for any program: programs run in nodes, each a network "
      "namespace with one interface, net0");
  net->require_subcommand(1);
  AddNetLifeCommands(*net, exit_status);
  AddNetNodeCommands(*net, program, exit_status);
  AddNetProbeCommand(*net, exit_status);
  AddNetStatsCommand(*net, exit_status);
}

}  // namespace longhaul
