#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "plugin/core/node.h"

namespace longhaul {

// What a group asks of the node that it shares; what it leaves out is the node's to decide.
struct NodeWishes {
  std::string interface = {};  // empty: any
  std::optional<absl::Duration> peer_deadline = {};
  std::optional<int64_t> credit_bytes = {};
  std::optional<int> coder_threads = {};
  bool shared_memory = false;    // true: must be allowed
  bool ucx_environment = false;  // likewise
};

// NodeOptions with the wishes in place of its defaults.
NodeOptions ToNodeOptions(const NodeWishes& wishes);

// The ucx node that all groups of this process share. Made at first use with those wishes, gone
// with the last group that holds it, made again after that (also in a forked child, which inherits
// no threads). FailedPrecondition: it is alive and differs from a wish, which is named with both
// values.
absl::StatusOr<std::shared_ptr<Node>> ProcessNode(const NodeWishes& wishes);

}  // namespace longhaul
