#include <fmt/format.h>

#include "base/status_macros.h"
#include "experiments/command/command.h"
#include "experiments/command/command_net.h"
#include "experiments/estimates/table.h"
#include "netem/lab_control/lab_client.h"

namespace longhaul {
namespace {

struct ProbeOptions {
  std::string lab, path;
  bool json = false;
  bool quick = false;
  bool ipv6 = false;
  int64_t pings = 20;
  int64_t datagrams = 5000;
};

std::string Rtt(const nlohmann::json& path) {
  if (!path.contains("rtt")) return "one way";
  const auto& rtt = path["rtt"];
  const std::string bound =
      rtt.contains("least_median_ms")
          ? fmt::format(" ({:.2f} to {:.2f})", rtt.value("least_median_ms", 0.0),
                        rtt.value("most_median_ms", 0.0))
          : "";
  return fmt::format("{:.2f} of {:.2f}{}", rtt.value("median_ms", 0.0),
                     rtt.value("nominal_ms", 0.0), bound);
}

std::string P99(const nlohmann::json& path) {
  if (!path.contains("rtt")) return "-";
  return fmt::format("{:.2f} (to {:.2f})", path["rtt"].value("p99_ms", 0.0),
                     path["rtt"].value("most_p99_ms", 0.0));
}

std::string Goodput(const nlohmann::json& path) {
  if (!path.contains("goodput")) return "-";
  const auto& rate = path["goodput"];
  return fmt::format("{:.4g} of {:.4g} ({:.4g} to {:.4g}) {}", rate.value("mbit", 0.0),
                     rate.value("nominal_mbit", 0.0), rate.value("least_mbit", 0.0),
                     rate.value("most_mbit", 0.0), rate.value("how", ""));
}

std::string Loss(const nlohmann::json& path) {
  if (!path.contains("datagrams")) return "-";
  const auto& datagrams = path["datagrams"];
  return fmt::format("{:.3g} of {:.3g} (+- {:.2g}, {} sent)", 100 * datagrams.value("loss", 0.0),
                     100 * path.value("loss", 0.0), 100 * datagrams.value("loss_bound", 0.0),
                     datagrams.value("sent", int64_t{0}));
}

void PrintTable(const nlohmann::json& answer) {
  Table table{.columns = ColumnsOf("path | RTT ms | p99 ms | goodput Mbit/s | loss % | verdict")};
  std::string complaints;
  for (const auto& path : answer.at("paths")) {
    const bool ok = path.value("in_bounds", false);
    table.Add({PathText(path), Rtt(path), P99(path), Goodput(path), Loss(path),
               ok                                    ? "ok"
               : path.value("carrier", "") == "down" ? "DOWN"
               : !path.value("tail_in_bounds", true) ? "OUT, tail late"
                                                     : "OUT"});
    if (const std::string note = path.value("goodput_note", ""); !note.empty()) {
      complaints += fmt::format("{}: {}\n", PathText(path), note);
    }
    if (!ok) complaints += path.value("why", "") + "\n";
  }
  fmt::print("{}{}{}", GridText(table), complaints, GatewayText(answer));
  fmt::print(
      "measured of nominal over IPv{}, its bounds behind it: median RTT max({:g} ms, {:g} %), goodput {:g} %, "
      "loss 3 standard errors, tail p99 1 ms; emulator {}, scheduling {}\n",
      answer.value("ip", 4), answer.value("rtt_tolerance_ms", 0.0),
      100 * answer.value("rtt_tolerance_share", 0.0),
      100 * answer.value("rate_tolerance_share", 0.0), answer.value("emulator", ""),
      answer.value("scheduling", ""));
}

absl::StatusOr<bool> Probe(const ProbeOptions& options) {
  ASSIGN_OR_RETURN(auto store, LabStore::Open());
  ASSIGN_OR_RETURN(auto answer, AskLab(store, options.lab,
                                       {{"do", "probe"},
                                        {"path", options.path},
                                        {"pings", options.pings},
                                        {"rate", !options.quick},
                                        {"ipv6", options.ipv6},
                                        {"loss_datagrams", options.quick ? 0 : options.datagrams}},
                                       absl::Hours(1)));
  if (options.json) {
    answer.message["schema"] = "longhaul.net-probe/1";
    fmt::print("{}\n", answer.message.dump(2));
  } else {
    PrintTable(answer.message);
  }
  return answer.message.value("in_bounds", false);
}

}  // namespace

void AddNetProbeCommand(CLI::App& net, int* exit_status) {
  auto options = std::make_shared<ProbeOptions>();
  CLI::App* probe = net.add_subcommand(
      "probe", "Measure every path against its figures; exit with 1 if one is out of bounds");
  probe->footer("Example:\n  longhaul net probe demo --quick");
  probe->add_option("lab", options->lab, kLabHelp)->required();
  probe->add_option("path", options->path, "Path: 'a>b', 'a<>b' or 'a>*' [default: all]");
  probe->add_flag("--json", options->json, kJsonHelp);
  probe->add_flag("--quick", options->quick, "Measure round trips only");
  probe->add_flag("--ipv6", options->ipv6, "Probe over IPv6 [default: IPv4]");
  probe->add_option("--pings", options->pings, "Echoes per path")->capture_default_str();
  probe
      ->add_option("--datagrams", options->datagrams,
                   "Datagrams per path to measure loss, for at most one second; 0: none")
      ->capture_default_str();
  probe->callback([options, exit_status] {
    auto in_bounds = Probe(*options);
    *exit_status = !in_bounds.ok() ? Fail(in_bounds.status()) : *in_bounds ? 0 : 1;
  });
}

}  // namespace longhaul
