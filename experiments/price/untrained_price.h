#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/spec/spec.h"

namespace longhaul {

// What an arm's forward boundaries cost weights that were trained without them: P.
struct UntrainedPrice {
  double nat;  // per token: mean over rows of the loss with them less the loss without
  double standard_error_nat;  // over rows
  int64_t rows;
};

// Of every arm, on the rows that a run of `reference` is evaluated on. `weights`: the folder that such a run has saved.
// `arms`: specs that differ from the reference's in stages and boundary codecs alone. nullopt: a codec that keeps a
// state from tensor to tensor. Errors as those of OpenCorpus, ModelWeights::Open and PriceModel.
absl::StatusOr<std::vector<std::optional<UntrainedPrice>>> PriceUntrained(
    const RunSpec& reference, const std::string& weights, std::span<const RunSpec> arms,
    int64_t threads);

}  // namespace longhaul
