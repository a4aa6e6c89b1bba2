#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "absl/status/statusor.h"
#include "plugin/backend/process_node.h"
#include "plugin/backend/rendezvous.h"

namespace longhaul {

// Where a rank is, as it tells the others of a new group before any of them makes a node.
struct Whereabouts {
  uint64_t network_id = 0;  // NetworkNamespaceId()
  bool named = false;       // its interface was named, by options or LONGHAUL_INTERFACE
  bool has_node = false;    // of scope kNetwork, or one that it brings along
  std::string source = {};  // own numeric address towards the store; "": unknown
};
std::string ToText(const Whereabouts& rank);
absl::StatusOr<Whereabouts> ParseWhereabouts(std::string_view text);

// The same answer on every rank: kThisHost only where all ranks share one network namespace, nobody
// named an interface, and they do not all have a node already.
NodeScope ScopeOf(std::span<const Whereabouts> ranks);

struct JoinRequest {
  absl::Status able;           // what this rank found wrong by itself: the others are told
  std::shared_ptr<Node> node;  // brought along; nullptr: one of the process's own
  NodeWishes wishes;           // of that one
  std::string agreement;       // as in Rendezvous::Exchange
};
struct Joined {
  std::shared_ptr<Node> node;
  Rendezvous::Peers peers;
};

// Settles with the other ranks over which node the group runs, and exchanges their addresses.
// `store` is the one that `rendezvous` uses: of several interfaces, the one that leads to its host
// is meant; on that host itself, the one that leads to a rank elsewhere.
absl::StatusOr<Joined> Join(Rendezvous& rendezvous, c10d::Store& store, const JoinRequest& request);

// Whether a TCPStore ends with this process: one of its sockets listens at the store's port.
Rendezvous::StoreServer ServerOf(c10d::Store& store);

}  // namespace longhaul
