// `weights estimate`: the closed form of a transfer, before any byte is sent.
#include <fmt/format.h>

#include "experiments/command/command.h"
#include "experiments/command/command_weights.h"
#include "plugin/swarm/transfer_time.h"

namespace longhaul {
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
      "estimate", "seconds that a fetch and a plain copy of one source take, by the closed form");
  const auto positive = CLI::Range(1e-6, 1e12);
  estimate->add_option("--mb", flags->megabytes, "10^6 bytes")->required()->check(positive);
  estimate->add_option("--sources", flags->sources, "that have the files")
      ->required()
      ->check(CLI::Range(1, 100'000));
  estimate->add_option("--up-mbit", flags->up_mbit, "goodput of a source's line, or of its path")
      ->required()
      ->check(positive);
  estimate->add_option("--down-mbit", flags->down_mbit, "goodput of the fetcher's line")
      ->required()
      ->check(positive);
  estimate->add_option("--rtt-ms", flags->rtt_ms, "there and back")
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
