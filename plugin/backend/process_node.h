#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "plugin/core/node.h"

namespace longhaul {

// The node that all groups of this process share. Made at first use with those options, gone with
// the last group that holds it, made again after that (also in a forked child, which inherits no
// threads). FailedPrecondition: it is alive with another interface or transport than asked for.
absl::StatusOr<std::shared_ptr<Node>> ProcessNode(const NodeOptions& options);

}  // namespace longhaul
