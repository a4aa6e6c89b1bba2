#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/spec/campaign.h"

namespace longhaul {

// "0-3,6" as {0, 1, 2, 3, 6}. InvalidArgument: other text, a GPU twice.
absl::StatusOr<std::vector<int>> ParseGpus(const std::string& text);

// InvalidArgument: a run that cannot be moved to another GPU, because it is not one process with train.device = "cuda".
absl::Status CheckCanSpread(const std::vector<PlannedRun>& runs);

// The GPUs of a campaign's runs, each run on one of them.
class GpuSpread {
 public:
  // None: every run stays where its spec says.
  explicit GpuSpread(const std::vector<int>& gpus);
  // The GPU that fewest runs have now, the first of equals, which one more has from now on.
  std::optional<int> Take();
  void GiveBack(std::optional<int> gpu);

 private:
  struct Gpu {
    int number, runs;
  };
  std::vector<Gpu> gpus_;
};

}  // namespace longhaul
