// `weights`: files of checkpoints, or any others, spread by a closed swarm.
#include "experiments/command/command_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "experiments/command/command.h"
#include "netem/lab_control/path_change.h"

namespace longhaul {
namespace {

// Bytes of payload a second; nullopt for "".
absl::StatusOr<std::optional<int64_t>> RateOf(const std::string& word) {
  if (word.empty()) return std::nullopt;
  const PathSpec bare{.from = 0,
                      .to = 1,
                      .rate = std::nullopt,
                      .delay = absl::ZeroDuration(),
                      .jitter = absl::ZeroDuration()};
  auto change = ApplyAssignments(bare, {"rate=" + word});
  if (!change.ok()) return change.status();
  if (!change->path.rate) return std::nullopt;
  // What is beyond int64 is refused as out of bounds, not turned over.
  return static_cast<int64_t>(std::min(change->path.rate->value / 8, 9e18));
}

}  // namespace

void AddSwarmOptions(CLI::App& command, SwarmFlags& flags) {
  command.add_option("--up", flags.upload_rate,
                     "most that is sent, of payload: 50mbit, 500kbit (default: no limit)");
  command.add_option("--down", flags.download_rate, "most that is taken in (default: no limit)");
  command.add_option("--dscp", flags.dscp,
                     "mark of every packet, 0 to 63 (default: 1, lower effort, RFC 8622)");
  command.add_flag("--json", flags.json, "one JSON document on stdout (docs/swarm.md)");
  command.add_flag("--quiet", flags.quiet, "no progress");
}

absl::StatusOr<SwarmOptions> OptionsOf(const SwarmFlags& flags) {
  auto listen = ParseSwarmAddress(flags.listen);
  if (!listen.ok()) return listen.status();
  SwarmOptions options{.listen = *std::move(listen), .members = flags.members, .dscp = flags.dscp};
  auto up = RateOf(flags.upload_rate), down = RateOf(flags.download_rate);
  if (!up.ok()) return up.status();
  if (!down.ok()) return down.status();
  options.upload_bytes_per_s = *up;
  options.download_bytes_per_s = *down;
  options.notice = [](const std::string& line) { fmt::print(stderr, "longhaul: {}\n", line); };
  return options;
}

std::string Megabytes(int64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

void AddWeightsCommand(CLI::App& app, int* exit_status) {
  CLI::App* weights = app.add_subcommand(
      "weights", "spread the files of a folder to others, from all who have them (docs/swarm.md)");
  weights->require_subcommand(1);
  AddWeightsShareCommand(*weights, exit_status);
  AddWeightsFetchCommand(*weights, exit_status);
  AddWeightsEstimateCommand(*weights, exit_status);
}

}  // namespace longhaul
