// `weights`: files of checkpoints, or any others, spread by a closed swarm.
#include "experiments/command/command_weights.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "experiments/command/command.h"
#include "netem/lab_control/path_change.h"
#include "plugin/swarm/transfer_time.h"

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
  ASSIGN_OR_RETURN(auto change, ApplyAssignments(bare, {"rate=" + word}));
  if (!change.path.rate) return std::nullopt;
  // What is beyond int64 is refused as out of bounds, not turned over.
  return static_cast<int64_t>(std::min(change.path.rate->value / 8, 9e18));
}

}  // namespace

void AddSwarmOptions(CLI::App& command, SwarmFlags& flags) {
  command.add_option("--up", flags.upload_rate,
                     "Upload limit of payload, such as 50mbit [default: no limit]");
  command.add_option("--down", flags.download_rate,
                     "Download limit of payload, such as 50mbit [default: no limit]");
  command.add_option("--dscp", flags.dscp,
                     "DSCP mark of every packet, 0 to 63 [default: 1, lower effort, RFC 8622]");
  command.add_flag("--json", flags.json, kJsonHelp);
  command.add_flag("-q,--quiet", flags.quiet, "Print no progress");
}

absl::StatusOr<SwarmOptions> OptionsOf(const SwarmFlags& flags) {
  auto listen = ParseSwarmAddress(flags.listen);
  if (!listen.ok()) return listen.status();
  SwarmOptions options{.listen = *std::move(listen), .members = flags.members, .dscp = flags.dscp};
  ASSIGN_OR_RETURN(options.upload_bytes_per_s, RateOf(flags.upload_rate));
  ASSIGN_OR_RETURN(options.download_bytes_per_s, RateOf(flags.download_rate));
  options.notice = [](const std::string& line) { fmt::print(stderr, "longhaul: {}\n", line); };
  return options;
}

std::string Megabytes(int64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

void AddWeightsCommand(CLI::App& app, int* exit_status) {
  CLI::App* weights =
      app.add_subcommand("weights", "Share and fetch folders of weights in a closed swarm");
  weights->group("Data and codecs");
  weights->require_subcommand(1);
  AddWeightsShareCommand(*weights, exit_status);
  AddWeightsFetchCommand(*weights, exit_status);
  AddWeightsEstimateCommand(*weights, exit_status);
  weights->footer(
      "Example:\n"
      "  longhaul weights fetch model.manifest --into model --peer 10.0.0.2:7000");
}

namespace {

struct EstimateFlags {
  double megabytes = 0, rtt_ms = 0;
  double up_mbit = 0, down_mbit = 0;
  int sources = 1;
};

}  // namespace

void AddWeightsEstimateCommand(CLI::App& weights, int* exit_status) {
  auto flags = std::make_shared<EstimateFlags>();
  CLI::App* estimate = weights.add_subcommand(
      "estimate", "Estimate how long a fetch and a plain copy take, by the closed form");
  estimate->footer(
      "Example:\n"
      "  longhaul weights estimate --mb 500 --sources 4 --up-mbit 50 --down-mbit 200 --rtt-ms 40");
  const auto positive = CLI::Range(1e-6, 1e12);
  estimate->add_option("--mb", flags->megabytes, "Size, in 10^6 bytes")
      ->required()
      ->check(positive);
  estimate->add_option("--sources", flags->sources, "Number of sources that have the files")
      ->required()
      ->check(CLI::Range(1, 100'000));
  estimate->add_option("--up-mbit", flags->up_mbit, "Goodput of a source's line or path, in Mbit/s")
      ->required()
      ->check(positive);
  estimate->add_option("--down-mbit", flags->down_mbit, "Goodput of the fetcher's line, in Mbit/s")
      ->required()
      ->check(positive);
  estimate->add_option("--rtt-ms", flags->rtt_ms, "Round trip time, in ms")
      ->required()
      ->check(CLI::Range(0.0, 1e6));
  estimate->callback([flags, exit_status] {
    Transfer transfer{.bytes = flags->megabytes * 1e6,
                      .sources = flags->sources,
                      .up_bytes_per_s = flags->up_mbit / 8e-6,
                      .down_bytes_per_s = flags->down_mbit / 8e-6,
                      .rtt = absl::Milliseconds(flags->rtt_ms),
                      .round_trips_before_data = kSwarmRoundTrips};
    fmt::print("fetch from {}: {:.3f} s\n", flags->sources,
               absl::ToDoubleSeconds(TransferTime(transfer)));
    transfer.sources = 1;
    transfer.round_trips_before_data = kCopyRoundTrips;
    fmt::print("copy from one: {:.3f} s\n", absl::ToDoubleSeconds(TransferTime(transfer)));
    *exit_status = 0;
  });
}

}  // namespace longhaul
