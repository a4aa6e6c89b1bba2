#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pp_group/local_rank.h"

namespace longhaul {

// How all S*G ranks come to load the same step of checkpoints, or none. Throws what c10d does.
struct StepLoad {
  std::string directory;  // for messages
  // The newest step, at most `limit`, that this process' ranks may have; -1: none.
  std::function<int64_t(int64_t limit)> newest;
  // Reads and checks all of a step for the local ranks and changes nothing. DataLoss, NotFound and
  // InvalidArgument (of another run) let all ranks try an older step; another error ends it for
  // all.
  std::function<absl::Status(int64_t step)> try_step;
  std::function<absl::Status()> restore;  // takes over what was tried last
};

struct LoadedStep {
  int64_t step;
  std::vector<std::string> passed_over;  // of the local ranks: files of newer steps, and why
};

// NotFound: some rank has none. Where no step is whole on all ranks: what the newest one lacks
// (DataLoss; InvalidArgument: it is of another run).
absl::StatusOr<LoadedStep> LoadNewestStep(std::span<const std::unique_ptr<RankState>> ranks,
                                          const StepLoad& load);

}  // namespace longhaul
