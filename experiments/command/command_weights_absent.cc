// `weights` of a build without libtorrent: one line.
#include "absl/status/status.h"
#include "experiments/command/command.h"

namespace longhaul {

void AddWeightsCommand(CLI::App& app, int* exit_status) {
  CLI::App* weights = app.add_subcommand(
      "weights", "Share and fetch folders of weights (this build has no libtorrent)");
  weights->group("Data and codecs");
  weights->allow_extras();
  weights->callback([exit_status] {
    *exit_status = Fail(absl::FailedPreconditionError(
        "weights: built without libtorrent-rasterbar; apt-get install libtorrent-rasterbar-dev, "
        "then build again"));
  });
}

}  // namespace longhaul
