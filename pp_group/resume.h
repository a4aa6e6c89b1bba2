#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pp_group/local_rank.h"

namespace longhaul {

// Trainer's checkpoints. `spec` is the run's canonical text. A rank's state between two steps is:
// parameters, AdamW moments, outer start and momentum, state of the outer codec, state of the
// boundary's channels. A codec's state is kept as in compressors/saved_state.h.
absl::Status SaveRanks(std::span<const std::unique_ptr<RankState>> ranks,
                       const std::string& directory, int64_t step, const std::string& spec);

// Collective over all S*G ranks: the newest step that all have, loaded by all or by none. Returns
// the step. Errors as Trainer::LoadCheckpoint; throws what c10d does.
absl::StatusOr<int64_t> LoadRanks(std::span<const std::unique_ptr<RankState>> ranks,
                                  const std::string& directory, const std::string& spec);

}  // namespace longhaul
