#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "plugin/core/node.h"

namespace longhaul {

// What a group asks of the node that it shares; what it leaves out is the node's to decide.
struct NodeWishes {
  std::string interface = {};  // empty: any; of a node of scope kNetwork only
  std::optional<absl::Duration> peer_deadline = {};
  std::optional<int64_t> credit_bytes = {};
  std::optional<int> coder_threads = {};
  int expected_peers = 0;        // as in NodeOptions; no difference
  bool shared_memory = false;    // true: must be allowed
  bool ucx_environment = false;  // likewise
};

// NodeOptions with the wishes in place of its defaults.
NodeOptions ToNodeOptions(const NodeWishes& wishes);

// Which ranks a node reaches: all, or those in this process's network namespace, over lo.
enum class NodeScope { kNetwork, kThisHost };

// The ucx node of that scope that all groups of this process share. Made at first use with those
// wishes, gone with the last group that holds it, made again after that (also in a forked child,
// which inherits no threads). `toward`: hosts that tell which of several interfaces is meant
// (ChooseInterface). FailedPrecondition: it is alive and differs from a wish, which is named with
// both values.
absl::StatusOr<std::shared_ptr<Node>> ProcessNode(const NodeWishes& wishes, NodeScope scope,
                                                  const std::vector<std::string>& toward = {});

// nullptr: there is none now.
std::shared_ptr<Node> LiveProcessNode(NodeScope scope);

}  // namespace longhaul
