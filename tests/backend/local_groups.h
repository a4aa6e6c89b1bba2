#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plugin/backend/process_group.h"
#include "plugin/backend/torch_error.h"

namespace longhaul {

// Ranks that all live in this process, each with its own loopback node. The frames, codecs and
// checksums are those of a run over a network.

// `ranks` loopback nodes. Throws as ThrowIfError.
inline std::vector<std::shared_ptr<Node>> MakeLoopbackNodes(int ranks) {
  std::vector<std::shared_ptr<Node>> nodes;
  for (int rank = 0; rank < ranks; ++rank) {
    absl::StatusOr<std::shared_ptr<Node>> node =
        Node::Create({.transport = TransportKind::kLoopback, .interface = ""});
    ThrowIfError(node.status());
    nodes.push_back(*std::move(node));
  }
  return nodes;
}

// One group over those nodes; element r is rank r's view of it and runs on nodes[r]. The group is
// named options.group_name, which must be unique among the nodes' groups. options.node is ignored.
inline std::vector<c10::intrusive_ptr<ProcessGroupLonghaul>> MakeLocalGroup(
    const std::vector<std::shared_ptr<Node>>& nodes, const ProcessGroupLonghaul::Options& options) {
  std::vector<std::string> addresses;
  for (const auto& node : nodes) addresses.push_back(node->address());
  std::vector<c10::intrusive_ptr<ProcessGroupLonghaul>> group;
  for (size_t rank = 0; rank < nodes.size(); ++rank) {
    auto own = c10::make_intrusive<ProcessGroupLonghaul::Options>(options);
    own->node = nodes[rank];
    group.push_back(
        ProcessGroupLonghaul::FromAddresses(static_cast<int>(rank), addresses, std::move(own)));
  }
  return group;
}

}  // namespace longhaul
