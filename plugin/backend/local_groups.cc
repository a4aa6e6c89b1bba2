#include "plugin/backend/local_groups.h"

#include "plugin/backend/torch_error.h"

namespace longhaul {

std::vector<std::shared_ptr<Node>> MakeLoopbackNodes(int ranks) {
  std::vector<std::shared_ptr<Node>> nodes;
  for (int rank = 0; rank < ranks; ++rank) {
    absl::StatusOr<std::shared_ptr<Node>> node =
        Node::Create({.transport = TransportKind::kLoopback, .interface = ""});
    ThrowIfError(node.status());
    nodes.push_back(*std::move(node));
  }
  return nodes;
}

std::vector<c10::intrusive_ptr<ProcessGroupLonghaul>> MakeLocalGroup(
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
