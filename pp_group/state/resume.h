#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pp_group/local_rank.h"
#include "pp_group/state/checkpoint.h"
#include "pp_group/step_agreement.h"

namespace longhaul {

// Trainer's checkpoints. `spec` is the run's canonical text. A rank's state between two steps is:
// parameters, AdamW moments, outer start and momentum, state of the outer codec, state of the
// boundary's channels. A codec's state is kept as in compressors/saved_state.h.
absl::StatusOr<std::vector<Checkpoint>> CheckpointsOf(
    std::span<const std::unique_ptr<RankState>> ranks, int64_t step, const std::string& spec);

// Collective over all S*G ranks: the newest step of which all have a whole file, loaded by all or
// by none. Errors and throws as Trainer::LoadCheckpoint.
absl::StatusOr<LoadedStep> LoadRanks(std::span<const std::unique_ptr<RankState>> ranks,
                                     const std::string& directory, const std::string& spec);

}  // namespace longhaul
