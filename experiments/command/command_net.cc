#include "experiments/command/command_net.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/status_macros.h"
#include "experiments/command/command.h"
#include "netem/lab_control/path_change.h"
#include "netem/nodes/node_setup.h"
#include "netem/topology/path_figure_table.h"
#include "netem/topology/rate_trace.h"
#include "netem/topology/region_tables.h"
#include "netem/topology/topology_file.h"

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

std::string DownText(const std::string& lab, const nlohmann::json& paths) {
  std::string text;
  for (const auto& path : paths) {
    if (path.value("carrier", "") != "down") continue;
    text += fmt::format("{} is down; `longhaul net set {} '{}>{}' carrier=up` brings it up\n",
                        PathText(path), lab, path.value("from", "?"), path.value("to", "?"));
  }
  return text;
}

std::string JitterText(const nlohmann::json& paths) {
  constexpr double kFrameBits = 8 * 1514;
  for (const auto& path : paths) {
    const nlohmann::json& rate = path.at("rate_mbit");
    if (!rate.is_number() || path.contains("jitter_order")) continue;
    const double frame_ms = kFrameBits / rate.get<double>() / 1e3;
    if (path.value("jitter_ms", 0.0) <= frame_ms) continue;
    return fmt::format(
        "{}: jitter of {:g} ms and {:.3g} ms a frame: behind a rate frames keep their order, so "
        "under "
        "load a late one holds back the next and the mean delay grows; with rate=none, or with "
        "jitter_order=free, they may overtake each other\n",
        PathText(path), path.value("jitter_ms", 0.0), frame_ms);
  }
  return "";
}

std::string BesideText(const nlohmann::json& path) {
  std::string text = path.value("carrier", "") == "down" ? "DOWN" : "";
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : ", ") + more; };
  for (const PathFigure& figure : PathFigureTable()) {
    if (figure.share == nullptr || figure.word == "loss") continue;  // which has a place of its own
    const double share = path.value(std::string(figure.word), 0.0);
    if (share > 0) add(fmt::format("{} {:g} %", figure.word, 100 * share));
  }
  if (path.contains("aqm")) {
    const auto& aqm = path["aqm"];
    add(fmt::format("{}{}", aqm.value("kind", ""), aqm.value("ecn", false) ? " with ECN" : ""));
  }
  if (path.contains("jitter_order")) add("jitter reorders");
  if (path.contains("rate_trace")) {
    const auto& trace = path["rate_trace"];
    add(fmt::format("mean of a trace of {:g} s, {:.3g} to {:.3g} Mbit/s in a second",
                    trace.value("length_s", 0.0), trace.value("least_in_a_second_mbit", 0.0),
                    trace.value("most_in_a_second_mbit", 0.0)));
  }
  return text;
}

std::string GatewayText(const nlohmann::json& answer) {
  const auto found = answer.find("gateway");
  if (found == answer.end() || !found->is_object()) return "";
  const nlohmann::json& gateway = *found;
  const bool names = !gateway.value("name_server", "").empty();
  std::string text = fmt::format(
      "gateway: nodes reach the host's network through {}, not shaped and beside the paths; {} is "
      "the host's own 127.0.0.1; {}\n",
      gateway.value("device", ""), gateway.value("host_name", ""),
      names ? "names resolve as on the host"
            : "the host's resolv.conf names no server with an IPv4 address, so other names fail");
  for (const auto& forward : gateway.at("forwards")) {
    text += fmt::format("forward: {}:{} of the host > {}:{}\n", forward.value("host_address", ""),
                        forward.value("host_port", 0), forward.value("node", ""),
                        forward.value("port", 0));
  }
  return text;
}

std::string PathText(const nlohmann::json& path) {
  return fmt::format("{} > {}", path.value("from", "?"), path.value("to", "?"));
}

void AddLinkOptions(CLI::App& command, const std::shared_ptr<LinkOptions>& options) {
  command.add_option(
      "links", options->links,
      "Profile, region table (aws, or aws:us-east-1,eu-west-1) or topology file; without one, give "
      "--rate and --rtt");
  command
      .add_option("--nodes", options->nodes,
                  "Number of nodes of a profile, named a, b, ... [default: 2]")
      ->check(CLI::Range(2, 26));
  command
      .add_option("--emulator", options->emulator,
                  "Emulator of the links: auto, netem or tap [default: auto]")
      ->check(CLI::IsMember({"auto", "netem", "tap"}));
  command.add_option("--congestion-control", options->emulation.congestion_control,
                     "TCP congestion control of the nodes [default: the system's]");
  command.add_flag_callback(
      "--no-slow-start-after-idle", [options] { options->emulation.slow_start_after_idle = false; },
      "Keep the TCP window over pauses");
  command.add_option("--seed", options->emulation.seed, "Seed of loss and jitter (tap)");
  // Words of `net set` for every path; units as there.
  for (const PathFigure& figure : PathFigureTable()) {
    if (figure.option.empty()) continue;
    command.add_option_function<std::string>(
        fmt::format("--{}", figure.word),
        [options, word = fmt::format("{}=", figure.word)](const std::string& value) {
          options->figures.push_back(word + value);
        },
        std::string(figure.option));
  }
  command.add_option(
      "--rate-trace", options->traces,
      "Recorded rate over time, in mahimahi's format or as times and rates under a line with "
      "their units: FILE, or 'a>b=FILE' for one direction (tap)");
}

namespace {

// Every pair has a path without rate, delay or loss: what is wanted comes as figures.
Topology BareMesh(int nodes) {
  Topology topology{.profile = "figures", .nodes = {}, .paths = {}};
  for (int i = 0; i < nodes; ++i) {
    topology.nodes.push_back({.name = "", .access = std::nullopt});
    for (int j = 0; j < nodes; ++j) {
      if (i == j) continue;
      topology.paths.push_back({.from = i,
                                .to = j,
                                .rate = std::nullopt,
                                .delay = absl::ZeroDuration(),
                                .jitter = absl::ZeroDuration()});
    }
  }
  return topology;
}

absl::StatusOr<Topology> TopologyOf(const LinkOptions& options) {
  if (IsTopologyFile(options.links)) {
    auto topology = ReadTopology(options.links);
    if (!topology.ok() || options.nodes == 0) return topology;
    const size_t nodes = topology->nodes.size();
    if (nodes == static_cast<size_t>(options.nodes)) return topology;
    return absl::InvalidArgumentError(fmt::format("{} has {} nodes of its own; {} were asked for",
                                                  options.links, nodes, options.nodes));
  }
  if (RegionTableOf(options.links) != nullptr && options.nodes != 0) {
    return absl::InvalidArgumentError(
        fmt::format("{} has a node for each region: leave out that {} were asked for; "
                    "aws:us-east-1,eu-west-1 takes two",
                    options.links, options.nodes));
  }
  if (options.links.empty() && options.figures.empty() && options.traces.empty()) {
    return absl::InvalidArgumentError(
        "want a profile (see `longhaul doctor`), a topology file, or figures such as --rate 50mbit "
        "--rtt 40ms");
  }
  if (options.nodes == 0 && !options.links.empty()) return TopologyNamed(options.links);
  const int nodes = options.nodes == 0 ? 2 : options.nodes;
  ASSIGN_OR_RETURN(auto topology, options.links.empty() ? absl::StatusOr<Topology>(BareMesh(nodes))
                                                        : UniformTopology(options.links, nodes));
  for (int i = 0; i < nodes; ++i)
    topology.nodes[i].name = std::string(1, static_cast<char>('a' + i));
  return topology;
}

// "FILE" for every path, "a>b=FILE" for those that are selected.
absl::Status AddTrace(const std::string& word, Topology& topology) {
  const size_t equals = word.find('='), arrow = word.find('>');
  const bool selects = arrow < equals && equals != std::string::npos && word.find('/') > equals;
  ASSIGN_OR_RETURN(auto pairs, SelectPaths(topology, selects ? word.substr(0, equals) : "*>*"));
  ASSIGN_OR_RETURN(auto trace, ReadRateTrace(selects ? word.substr(equals + 1) : word));
  for (PathSpec& path : topology.paths) {
    const std::pair<int, int> ends(path.from, path.to);
    if (std::find(pairs.begin(), pairs.end(), ends) == pairs.end()) continue;
    SetRateTrace(path, trace, topology.mtu);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LabSpec> LabOf(const LinkOptions& options) {
  ASSIGN_OR_RETURN(auto topology, TopologyOf(options));
  for (PathSpec& path : topology.paths) {
    ASSIGN_OR_RETURN(auto changed, ApplyAssignments(path, options.figures, topology.mtu));
    path = changed.path;
  }
  for (const std::string& word : options.traces) {
    RETURN_IF_ERROR(AddTrace(word, topology));
  }
  const RegionRtts* regions = RegionTableOf(options.links);
  const std::string name = regions != nullptr
                               ? std::string(regions->name)
                               : std::filesystem::path(options.links).stem().string();
  LabSpec spec{.name = name.empty() ? "lab" : name,
               .topology = std::move(topology),
               .emulator = std::nullopt,
               .options = options.emulation,
               .ceiling = LoadTapCeiling()};
  if (KernelHasIpv6()) spec.options.ip = IpVersions::kBoth;
  if (options.emulator == "netem") spec.emulator = EmulatorKind::kNetem;
  if (options.emulator == "tap") spec.emulator = EmulatorKind::kTap;
  return spec;
}

void AddNetCommand(CLI::App& app, const std::vector<std::string>* program, int* exit_status) {
  CLI::App* net =
      app.add_subcommand("net", "Build labs of shaped links and run any program in their nodes");
  net->group("Network lab");
  net->require_subcommand(1);
  AddNetLifeCommands(*net, exit_status);
  AddNetNodeCommands(*net, program, exit_status);
  AddNetRunCommand(*net, program, exit_status);
  AddNetCaptureCommand(*net, exit_status);
  AddNetProbeCommand(*net, exit_status);
  AddNetStatsCommand(*net, exit_status);
  net->footer(
      "Example:\n"
      "  longhaul net run continental-us -- ping -c 3 b\n\n"
      "A node is a network namespace with one interface, net0.");
}

}  // namespace longhaul
