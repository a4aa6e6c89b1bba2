#include "plugin/backend/process_node.h"

#include <unistd.h>

#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "plugin/core/ucx/descriptors.h"
#include "plugin/core/ucx/interfaces.h"

namespace longhaul {
namespace {

struct Shared {
  std::mutex mu;
  std::weak_ptr<Node> node;  // weak: the groups own it
  NodeOptions made_with{.transport = TransportKind::kUcx, .interface = ""};
  pid_t owner = 0;
};

Shared& SharedOf(NodeScope scope) {
  static Shared* shared = new Shared[2];  // never destroyed: groups may outlive static destructors
  return shared[scope == NodeScope::kNetwork ? 0 : 1];
}

std::shared_ptr<Node> LiveNodeOf(const Shared& shared) {
  return shared.owner == getpid() ? shared.node.lock() : nullptr;
}

absl::Status SetInterface(NodeScope scope, const std::vector<std::string>& toward,
                          NodeOptions& options) {
  if (scope == NodeScope::kThisHost) {
    options.interface = "lo";
    options.interface_why = "every rank is on this host";
    return absl::OkStatus();
  }
  if (absl::Status s = CheckDescriptors(UcxNodeIs::kToBeMade, options.expected_peers); !s.ok()) {
    return s;  // to look at interfaces takes descriptors too
  }
  ASSIGN_OR_RETURN(ChosenInterface chosen, ChooseInterface(options.interface, toward));
  options.interface = std::move(chosen.name);
  options.interface_why = std::move(chosen.why);
  return absl::OkStatus();
}

// "peer_deadline 30s, 10s": the first thing in which the node is not what was wished; empty: none.
std::string Difference(const NodeWishes& wishes, const NodeOptions& node) {
  if (!wishes.interface.empty() && wishes.interface != node.interface) {
    return absl::StrCat("interface '", node.interface, "', '", wishes.interface, "'");
  }
  if (wishes.peer_deadline.value_or(node.peer_deadline) != node.peer_deadline) {
    return absl::StrCat("peer_deadline ", absl::FormatDuration(node.peer_deadline), ", ",
                        absl::FormatDuration(*wishes.peer_deadline));
  }
  if (wishes.credit_bytes.value_or(node.credit_bytes) != node.credit_bytes) {
    return absl::StrCat("credit_bytes ", node.credit_bytes, ", ", *wishes.credit_bytes);
  }
  if (wishes.coder_threads.value_or(CoderThreads(node)) != CoderThreads(node)) {
    return absl::StrCat("coder_threads ", CoderThreads(node), ", ", *wishes.coder_threads);
  }
  if (wishes.shared_memory && node.shared_memory == NodeOptions::SharedMemory::kForbidden) {
    return "shared_memory forbidden, allowed";
  }
  if (wishes.ucx_environment && node.ucx_environment == NodeOptions::UcxEnvironment::kRefused) {
    return "ucx_environment refused, accepted";
  }
  return "";
}

}  // namespace

NodeOptions ToNodeOptions(const NodeWishes& wishes) {
  NodeOptions options{.transport = TransportKind::kUcx, .interface = wishes.interface};
  options.peer_deadline = wishes.peer_deadline.value_or(options.peer_deadline);
  options.credit_bytes = wishes.credit_bytes.value_or(options.credit_bytes);
  options.coder_threads = wishes.coder_threads;
  options.expected_peers = wishes.expected_peers;
  if (wishes.shared_memory) options.shared_memory = NodeOptions::SharedMemory::kAllowed;
  if (wishes.ucx_environment) options.ucx_environment = NodeOptions::UcxEnvironment::kAllowed;
  return options;
}

absl::StatusOr<std::shared_ptr<Node>> ProcessNode(const NodeWishes& wishes, NodeScope scope,
                                                  const std::vector<std::string>& toward) {
  Shared& shared = SharedOf(scope);
  std::lock_guard<std::mutex> lock(shared.mu);
  std::shared_ptr<Node> node = LiveNodeOf(shared);
  if (node == nullptr) {
    NodeOptions options = ToNodeOptions(wishes);
    RETURN_IF_ERROR(SetInterface(scope, toward, options));
    ASSIGN_OR_RETURN(std::shared_ptr<Node> made, Node::Create(options));
    shared.node = made;
    shared.made_with = options;
    shared.owner = getpid();
    return made;
  }
  const std::string difference = Difference(wishes, shared.made_with);
  if (!difference.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the groups of a process share one node; it is up as '", node->description(), "' with ",
        difference, " asked for now: give the same in every group's options, or leave it out"));
  }
  return node;
}

std::shared_ptr<Node> LiveProcessNode(NodeScope scope) {
  Shared& shared = SharedOf(scope);
  std::lock_guard<std::mutex> lock(shared.mu);
  return LiveNodeOf(shared);
}

}  // namespace longhaul
