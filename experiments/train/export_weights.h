#pragma once

#include <string>

#include "absl/status/status.h"
#include "experiments/spec/spec.h"

namespace longhaul {

// Writes the weights of group 0 at the newest step that all its stages have in `checkpoints` (where
// groups have just met, those of every group) as WriteModelWeights does. `spec` is the run's.
// `folder` is new or empty, and a failure leaves
// nothing there. AlreadyExists: it holds something; NotFound: no such step; DataLoss: a file is corrupt; InvalidArgument: checkpoints of another
// model.
absl::Status ExportWeights(const std::string& checkpoints, const RunSpec& spec,
                           const std::string& folder);

}  // namespace longhaul
