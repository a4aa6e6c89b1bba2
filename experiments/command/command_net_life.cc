#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "base/status_macros.h"
#include "experiments/command/command.h"
#include "experiments/command/command_net.h"
#include "experiments/estimates/table.h"
#include "netem/lab_control/lab_client.h"
#include "netem/topology/path_figure_table.h"
#include "netem/topology/region_tables.h"

namespace longhaul {
namespace {

struct UpOptions {
  std::string name;
  bool gateway = false;
  std::vector<std::string> forwards = {};
  std::shared_ptr<LinkOptions> links = std::make_shared<LinkOptions>();
};

absl::StatusOr<std::optional<GatewaySpec>> GatewayOf(const UpOptions& options) {
  if (!options.gateway) {
    if (options.forwards.empty()) return std::nullopt;
    return absl::InvalidArgumentError("--forward: a lab without --gateway has no way in or out");
  }
  GatewaySpec spec{.forwards = {}, .resolver = ParseResolver(ReadFileOrEmpty("/etc/resolv.conf"))};
  for (const std::string& text : options.forwards) {
    ASSIGN_OR_RETURN(auto forward, ParseForward(text));
    spec.forwards.push_back(std::move(forward));
  }
  return spec;
}

absl::StatusOr<LabSpec> Up(const UpOptions& options) {
  ASSIGN_OR_RETURN(auto spec, LabOf(*options.links));
  if (!options.name.empty()) spec.name = options.name;
  ASSIGN_OR_RETURN(auto gateway, GatewayOf(options));
  spec.gateway = std::move(gateway);
  ASSIGN_OR_RETURN(auto store, LabStore::Open());
  RETURN_IF_ERROR(StartLabDaemon(store, spec));
  return spec;
}

absl::Status PrintUp(const UpOptions& options) {
  ASSIGN_OR_RETURN(const auto spec, Up(options));
  const std::string& lab = spec.name;
  ASSIGN_OR_RETURN(auto store, LabStore::Open());
  auto info = AskLab(store, lab, {{"do", "info"}});
  if (!info.ok()) return info.status();
  const nlohmann::json& nodes = info->message.at("nodes");
  fmt::print("lab {} is up: {} node{}, {} path{}; emulator {}, scheduling {}\n", lab, nodes.size(),
             nodes.size() == 1 ? "" : "s", info->message.at("paths").size(),
             info->message.at("paths").size() == 1 ? "" : "s", info->message.value("emulator", ""),
             info->message.value("scheduling", ""));
  if (const RegionRtts* regions = RegionTableOf(info->message.value("profile", ""))) {
    fmt::print("round-trip times of {}: {}; rates are yours to give\n", regions->name,
               regions->source);
  }
  fmt::print("{}", GatewayText(info->message));
  fmt::print(stderr, "{}{}", MissingPathsText(spec.topology),
             JitterText(info->message.at("paths")));
  if (nodes.size() >= 2) {
    fmt::print(
        "next: longhaul net exec {}/{} -- ping -c 3 {};  longhaul net probe {};  "
        "longhaul net down {}\n",
        lab, nodes[0].value("name", ""), nodes[1].value("name", ""), lab, lab);
  }
  return absl::OkStatus();
}

std::string Minutes(double seconds) {
  if (seconds < 120) return fmt::format("{:.0f} s", seconds);
  if (seconds < 7200) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

absl::Status ListAll(bool json) {
  ASSIGN_OR_RETURN(auto store, LabStore::Open());
  if (json) {
    const nlohmann::json document = {{"schema", "longhaul.net-list/1"}, {"labs", ListLabs(store)}};
    fmt::print("{}\n", document.dump(2));
    return absl::OkStatus();
  }
  Table table{.columns = ColumnsOf("lab | nodes | emulator | links | up for | state")};
  const auto labs = ListLabs(store);
  for (const auto& lab : labs) {
    const std::string health = lab.value("health", "");
    table.Add({lab.value("name", ""),
               lab.contains("nodes") ? fmt::format("{}", lab.at("nodes").size()) : "?",
               lab.value("emulator", "?"),
               lab.value("profile", "?") + (GatewayText(lab).empty() ? "" : ", gateway"),
               lab.contains("up_s") ? Minutes(lab.value("up_s", 0.0)) : "?",
               health.empty() ? "ok" : health});
  }
  if (labs.empty()) {
    fmt::print("no lab is up; start one with 'longhaul net up PROFILE'\n");
  } else {
    fmt::print("{}", GridText(table));
  }
  return absl::OkStatus();
}

// Of the queue before the path's own rate.
std::string QueueText(const nlohmann::json& path) {
  const auto packets = path.find("queue_packets");
  const bool has_queue = packets != path.end() && packets->is_number_integer();
  return has_queue ? fmt::format("{}", packets->get<int64_t>()) : "no";
}

absl::Status ListLab(const std::string& lab, bool only_nodes, bool json) {
  ASSIGN_OR_RETURN(auto store, LabStore::Open());
  auto info = AskLab(store, lab, {{"do", "info"}});
  if (!info.ok()) return info.status();
  if (json) {
    info->message["schema"] = "longhaul.net-lab/1";
    fmt::print("{}\n", info->message.dump(2));
    return absl::OkStatus();
  }
  for (const auto& node : info->message.at("nodes")) {
    if (only_nodes) {
      fmt::print("{}\n", node.value("name", ""));
      continue;
    }
    std::string line;
    if (node.contains("up_mbit")) {
      line = fmt::format(" up {}, down {}", RateText(node["up_mbit"]), RateText(node["down_mbit"]));
    }
    if (node.contains("access_aqm")) {
      line += ", " + BesideText({{"aqm", node["access_aqm"]}});
    }
    if (node.contains("site")) line += fmt::format(", shared by site {}", node.value("site", ""));
    fmt::print("{:<20} {:<15} {:<24}{}\n", node.value("name", ""), node.value("address", ""),
               node.value("address6", ""), line);
  }
  if (only_nodes) return absl::OkStatus();
  Table table{.columns = ColumnsOf("path | rate | delay ms | jitter ms | loss % | "
                                   "queue, packets | ")};
  for (const auto& path : info->message.at("paths")) {
    table.Add({PathText(path), RateText(path.at("rate_mbit")),
               fmt::format("{:g}", path.value("delay_ms", 0.0)),
               fmt::format("{:g}", path.value("jitter_ms", 0.0)),
               fmt::format("{:g}", 100 * path.value("loss", 0.0)), QueueText(path),
               BesideText(path)});
  }
  fmt::print("{}{}{}", GridText(table), GatewayText(info->message),
             DownText(lab, info->message.at("paths")));
  return absl::OkStatus();
}

std::string BesideSet(const nlohmann::json& path) {
  const std::string text = BesideText(path);
  return text.empty() ? "" : "; " + text;
}

// The lab's process has its own working folder: a trace's name is made absolute here.
std::string WithAbsoluteFile(const std::string& word) {
  constexpr std::string_view kTrace = "rate_trace=";
  if (!word.starts_with(kTrace) || word == "rate_trace=none") return word;
  const std::string file = word.substr(kTrace.size());
  if (file.empty()) return word;
  return std::string(kTrace) + std::filesystem::absolute(file).string();
}

absl::Status Set(const std::string& lab, const std::string& path,
                 std::vector<std::string> assignments) {
  for (std::string& word : assignments) word = WithAbsoluteFile(word);
  ASSIGN_OR_RETURN(auto store, LabStore::Open());
  ASSIGN_OR_RETURN(
      auto answer,
      AskLab(store, lab, {{"do", "set"}, {"path", path}, {"assignments", assignments}}));
  for (const auto& changed : answer.message.at("paths")) {
    fmt::print("{}: {}, delay {:g} ms, jitter {:g} ms, loss {:g} %, queue of {} packets{}\n",
               PathText(changed), RateText(changed.at("rate_mbit")), changed.value("delay_ms", 0.0),
               changed.value("jitter_ms", 0.0), 100 * changed.value("loss", 0.0),
               QueueText(changed), BesideSet(changed));
  }
  fmt::print(stderr, "{}", JitterText(answer.message.at("paths")));
  return absl::OkStatus();
}

absl::Status Down(const std::string& lab, bool all) {
  if (lab.empty() != all) return absl::InvalidArgumentError("down: want one LAB, or --all");
  ASSIGN_OR_RETURN(auto store, LabStore::Open());
  absl::Status first;
  for (const std::string& name : all ? store.Names() : std::vector<std::string>{lab}) {
    const absl::Status s = TakeDown(store, name);
    if (s.ok()) fmt::print("lab {} is down\n", name);
    if (first.ok()) first = s;
  }
  return first;
}

void AddUp(CLI::App& net, int* exit_status) {
  auto options = std::make_shared<UpOptions>();
  CLI::App* up = net.add_subcommand("up", "Build a lab that stays until `net down`");
  up->footer("Example:\n  longhaul net up continental-us --name demo --nodes 3");
  AddLinkOptions(*up, options->links);
  up->add_option("--name", options->name,
                 "Name of the lab [default: name of the profile or the file]");
  up->add_flag("--gateway", options->gateway,
               "Let nodes reach the host's network as well (docs/net-lab-reference.md)");
  up->add_option("--forward", options->forwards,
                 "With --gateway: lead a TCP port of the host to a node, as "
                 "[ADDRESS:]HOST_PORT:NODE:PORT (repeatable)")
      ->allow_extra_args(false);
  up->callback(Calling(PrintUp, options, exit_status));
}

void AddList(CLI::App& net, int* exit_status) {
  auto lab = std::make_shared<std::string>();
  auto nodes = std::make_shared<bool>(false);
  auto json = std::make_shared<bool>(false);
  CLI::App* list =
      net.add_subcommand("list", "List the labs that are up, or the nodes and paths of one");
  list->footer("Example:\n  longhaul net list demo");
  list->add_option("lab", *lab, "Name of a lab, to list it in detail");
  list->add_flag("--nodes", *nodes, "List only the names of its nodes, one per line");
  list->add_flag("--json", *json, kJsonHelp);
  list->callback([lab, nodes, json, exit_status] {
    const absl::Status status = !lab->empty() ? ListLab(*lab, *nodes, *json)
                                : *nodes ? absl::InvalidArgumentError("list --nodes: want a LAB")
                                         : ListAll(*json);
    *exit_status = Fail(status);
  });
}

}  // namespace

void AddNetLifeCommands(CLI::App& net, int* exit_status) {
  AddUp(net, exit_status);
  AddList(net, exit_status);

  auto lab = std::make_shared<std::string>();
  auto path = std::make_shared<std::string>();
  auto assignments = std::make_shared<std::vector<std::string>>();
  CLI::App* set = net.add_subcommand("set", "Change paths while traffic flows");
  set->footer("Example:\n  longhaul net set demo 'a<>b' rate=50mbit loss=1%");
  set->add_option("lab", *lab, kLabHelp)->required();
  set->add_option("path", *path,
                  "Path: 'a>b', 'a<>b' for both directions, '*' for all, '*>b' from every node")
      ->required();
  std::string words;
  for (const PathFigure& figure : PathFigureTable()) {
    words += fmt::format("{}={} ", figure.word, figure.examples);
  }
  set->add_option("figures", *assignments, "Figures: " + words + "carrier=down|up outage=3s")
      ->required();
  set->callback([lab, path, assignments, exit_status] {
    *exit_status = Fail(Set(*lab, *path, *assignments));
  });

  auto ended = std::make_shared<std::string>();
  auto all = std::make_shared<bool>(false);
  CLI::App* down = net.add_subcommand("down", "End a lab and everything that runs in it");
  down->footer("Example:\n  longhaul net down demo");
  down->add_option("lab", *ended, kLabHelp);
  down->add_flag("--all", *all, "End every lab of this user");
  down->callback([ended, all, exit_status] { *exit_status = Fail(Down(*ended, *all)); });
}

}  // namespace longhaul
