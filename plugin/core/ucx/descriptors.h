#pragma once

#include "absl/status/status.h"

namespace longhaul {

// Whether this process may open the file descriptors that ucx is about to need: UCX 1.13.1 ends the
// process by an assertion, or a connection without a word, when it gets none.
// FailedPrecondition: it may not; how many it would have open, and the limit.
enum class UcxNodeIs { kToBeMade, kThere };
absl::Status CheckDescriptors(UcxNodeIs node, int new_peers);

}  // namespace longhaul
