#pragma once

#include "absl/status/status.h"
#include "experiments/spec/spec.h"
#include "pp_group/data/corpus.h"

namespace longhaul {

// Everything that the trainer can refuse of this run on this data: what Trainer::Create checks, and
// the rows of the evaluation that comes last. Nothing is built. InvalidArgument.
absl::Status CheckTraining(const RunSpec& spec, const Corpus& corpus);

// Whether the run can begin with what checkpoint.from holds, by its newest files of group 0; OK
// where nothing is named. InvalidArgument: another model, other data; NotFound, DataLoss.
absl::Status CheckRestoring(const RunSpec& spec, const Corpus& corpus);

}  // namespace longhaul
