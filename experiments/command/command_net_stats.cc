#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <optional>

#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "experiments/command/command.h"
#include "experiments/command/command_net.h"
#include "experiments/estimates/table.h"
#include "netem/lab_control/lab_client.h"

namespace longhaul {
namespace {

using nlohmann::json;

struct StatsOptions {
  std::string lab;
  bool watch = false;
  bool json = false;
  double interval_s = 1;
};

int64_t Count(const json& path, const char* key) { return path.value(key, int64_t{0}); }

// Of access lines that lost or marked something.
std::string LinesText(const json& lines) {
  std::string text;
  for (const json& line : lines) {
    const int64_t full = Count(line, "drops_queue"), managed = Count(line, "drops_aqm");
    const int64_t marks = Count(line, "ecn_marks");
    if (full + managed + marks == 0) continue;
    text +=
        fmt::format("access line {} {}: {} packets, {} queue drops, {} aqm drops, {} CE marks\n",
                    line.value("name", "?"), line.value("direction", "?"), Count(line, "packets"),
                    full, managed, marks);
  }
  return text;
}

// Rates are means since `before`; without one, since the lab was built.
std::string StatsText(const std::string& lab, const json& now, const std::optional<json>& before) {
  const double seconds = now.value("at_s", 0.0) - (before ? before->value("at_s", 0.0) : 0);
  Table table{.columns = ColumnsOf("path | Mbit/s | of | packets/s | inside kB | packets | "
                                   "queue drops | loss drops | aqm drops | CE marks | ")};
  const json& paths = now.at("paths");
  for (size_t i = 0; i < paths.size(); ++i) {
    const auto grown = [&](const char* key) {
      const bool known = before && before->at("paths").size() == paths.size();
      const int64_t start = known ? Count(before->at("paths")[i], key) : 0;
      return seconds > 0 ? static_cast<double>(Count(paths[i], key) - start) / seconds : 0;
    };
    const json& rate = paths[i].at("rate_mbit");
    table.Add({PathText(paths[i]), fmt::format("{:.3f}", grown("bytes") * 8 / 1e6),
               rate.is_number() ? fmt::format("{:g}", rate.get<double>()) : "-",
               fmt::format("{:.0f}", grown("packets")),
               fmt::format("{:.1f}", static_cast<double>(Count(paths[i], "held_bytes")) / 1e3),
               fmt::format("{}", Count(paths[i], "packets")),
               fmt::format("{}", Count(paths[i], "drops_queue")),
               fmt::format("{}", Count(paths[i], "drops_loss")),
               fmt::format("{}", Count(paths[i], "drops_aqm")),
               fmt::format("{}", Count(paths[i], "ecn_marks")),
               paths[i].value("carrier", "") == "down" ? "DOWN" : ""});
  }
  const double cpu = now.value("cpu_s", 0.0) - (before ? before->value("cpu_s", 0.0) : 0);
  std::string text = GridText(table);
  if (now.value("frames", int64_t{0}) > 0) {
    text += fmt::format(
        "emulator: {:.1f} % of a core; {} of {} frames left more than 1 ms late, {:.2f} ms at "
        "most\n",
        seconds > 0 ? 100 * cpu / seconds : 0, Count(now, "late_frames"), Count(now, "frames"),
        now.value("latest_ms", 0.0));
  }
  for (const auto& change : now.value("late_changes", json::array())) {
    text += fmt::format("{}, due {:.1f} s after the lab's start, was made {:.3f} s late\n",
                        change.value("what", ""), change.value("at_s", 0.0),
                        change.value("late_s", 0.0));
  }
  text += fmt::format("{} frames belonged to no path and were dropped\n",
                      Count(now, "unroutable_drops"));
  text += LinesText(now.value("access_lines", json::array()));
  const json unread = now.value("unread_drops", json::object());
  for (const auto& [node, drops] : unread.items()) {
    if (drops.get<int64_t>() == 0) continue;
    text += fmt::format(
        "{}: {} frames were lost before the emulator could read them: the machine "
        "was too busy, and this loss belongs to no path\n",
        node, drops.get<int64_t>());
  }
  text += GatewayText(now);
  const json traffic = now.value("gateway_traffic", json::object());
  for (const auto& [node, counters] : traffic.items()) {
    text += fmt::format("gateway: {} sent {:.1f} kB and received {:.1f} kB\n", node,
                        static_cast<double>(Count(counters, "sent_bytes")) / 1e3,
                        static_cast<double>(Count(counters, "received_bytes")) / 1e3);
  }
  text += DownText(lab, now.at("paths"));
  const std::string health = now.value("health", "");
  return health.empty() ? text : text + "BROKEN: " + health + "\n";
}

absl::Status Stats(const StatsOptions& options) {
  ASSIGN_OR_RETURN(auto store, LabStore::Open());
  if (!(options.interval_s > 0)) return absl::InvalidArgumentError("stats: want an interval > 0");
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  std::optional<json> before;
  for (;;) {
    ASSIGN_OR_RETURN(auto now, AskLab(store, options.lab, {{"do", "stats"}}, absl::Minutes(1)));
    now.message["schema"] = "longhaul.net-stats/1";
    const std::string text =
        options.json ? now.message.dump() + "\n" : StatsText(options.lab, now.message, before);
    // Home, then the text, then clear what an older, longer table left below.
    fmt::print("{}{}{}", options.watch && terminal ? "\033[H\033[J" : "", text,
               options.watch && !terminal && !options.json ? "\n" : "");
    fflush(stdout);
    if (!options.watch) return absl::OkStatus();
    before.emplace(std::move(now.message));
    absl::SleepFor(absl::Seconds(options.interval_s));
  }
}

}  // namespace

void AddNetStatsCommand(CLI::App& net, int* exit_status) {
  auto options = std::make_shared<StatsOptions>();
  CLI::App* stats = net.add_subcommand("stats", "Show what every path carried, dropped and queues");
  stats->footer("Example:\n  longhaul net stats demo --watch");
  stats->add_option("lab", options->lab, kLabHelp)->required();
  stats->add_flag("--watch", options->watch,
                  "Show a live table until Ctrl-C or the end of the lab");
  stats->add_flag("--json", options->json,
                  "Print one JSON document on stdout; with --watch, one line each time");
  stats->add_option("--interval", options->interval_s, "Seconds between looks, with --watch")
      ->capture_default_str();
  stats->callback(Calling(Stats, options, exit_status));
}

}  // namespace longhaul
