#include "plugin/backend/process_node.h"

#include <unistd.h>

#include <mutex>

#include "absl/strings/str_cat.h"

namespace longhaul {
namespace {

struct Shared {
  std::mutex mu;
  std::weak_ptr<Node> node;  // weak: the groups own it
  NodeOptions made_with{.transport = TransportKind::kUcx, .interface = ""};
  pid_t owner = 0;
};

Shared& TheShared() {
  static Shared* shared = new Shared;
  return *shared;  // never destroyed: groups may outlive static destructors
}

}  // namespace

absl::StatusOr<std::shared_ptr<Node>> ProcessNode(const NodeOptions& options) {
  Shared& shared = TheShared();
  std::lock_guard<std::mutex> lock(shared.mu);
  std::shared_ptr<Node> node = shared.owner == getpid() ? shared.node.lock() : nullptr;
  if (node == nullptr) {
    absl::StatusOr<std::shared_ptr<Node>> made = Node::Create(options);
    if (!made.ok()) return made.status();
    shared.node = *made;
    shared.made_with = options;
    shared.owner = getpid();
    return *made;
  }
  const bool other_interface =
      !options.interface.empty() && options.interface != shared.made_with.interface;
  if (other_interface || options.transport != shared.made_with.transport) {
    return absl::FailedPreconditionError(
        absl::StrCat("the groups of a process share one node, and it is already up as '",
                     node->description(), "' (interface '", shared.made_with.interface,
                     "'); interface '", options.interface, "' was asked for"));
  }
  return node;
}

}  // namespace longhaul
