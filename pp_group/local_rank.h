#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pp_group/adamw.h"
#include "pp_group/checkpoint.h"
#include "pp_group/executor.h"
#include "pp_group/outer_sync.h"
#include "pp_group/trainer.h"

namespace longhaul {

// All that one local rank owns: its stage, pipeline side, optimizers. Private to trainer*.cc.
struct RankState {
  LocalRank rank;
  std::unique_ptr<GptStage> stage;
  std::unique_ptr<PipelineRank> pipeline;
  std::unique_ptr<AdamW> optimizer;
  std::unique_ptr<OuterSync> outer;  // nullptr: never an outer step
  std::vector<int64_t> rows;         // of the current step, [B, T + 1]; first and last stage
  StepReport report;
};

absl::StatusOr<std::unique_ptr<RankState>> NewRankState(const TrainSpec& spec,
                                                        const LocalRank& rank,
                                                        const std::function<absl::Duration()>* now);

// The whole state between two steps, and back. Restore checks every section before it changes
// anything (DataLoss).
Checkpoint CheckpointOf(RankState& state, int64_t step, const std::string& spec);
absl::Status CanRestore(const Checkpoint& checkpoint, RankState& state);
absl::Status Restore(const Checkpoint& checkpoint, RankState& state);

// The smallest of every rank's `offers` ([i] of local rank i) over all S*G ranks: over the plain
// group of each pipeline, then over the peers of each stage. Throws what c10d does.
int64_t AgreeOnSmallest(std::span<const std::unique_ptr<RankState>> ranks,
                        std::vector<int64_t> offers);

}  // namespace longhaul
