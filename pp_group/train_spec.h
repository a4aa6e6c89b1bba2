#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "pp_group/trainer.h"

namespace longhaul {

// InvalidArgument naming the field, what was seen and what is wanted.
absl::Status CheckTrainSpec(const TrainSpec& spec, const Corpus& corpus);
// `elastic`: peers of other groups are met through a RoundKeeper.
absl::Status CheckLocalRanks(const TrainSpec& spec, const std::vector<LocalRank>& ranks,
                             bool elastic = false);

// Everything that decides the result, one "field=value" a line, doubles exactly: two runs with
// equal text train alike.
std::string CanonicalText(const TrainSpec& spec, const Corpus& corpus);

// The first line in which two canonical texts differ, as "'a' against 'b'".
std::string FirstDifference(const std::string& a, const std::string& b);

}  // namespace longhaul
