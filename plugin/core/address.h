#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "plugin/core/node.h"

namespace longhaul {

// Drawn by a node; who knows it may greet that node (greeting.h). All zero: not told.
using NodeKey = std::array<std::byte, 16>;

// What Node::address() holds. Opaque to everybody else.
struct NodeAddress {
  TransportKind transport = TransportKind::kLoopback;
  uint64_t node_id = 0;      // random
  uint32_t generation = 0;   // groups closed on the node so far: tells a group from its namesake
  uint64_t network_id = 0;   // Transport::network_id()
  int64_t credit_bytes = 0;  // what the node grants each sender
  absl::Duration deadline;   // after which it calls a silent peer dead
  NodeKey key = {};          // a secret: an address is for the ranks of a group alone
  std::string blob;          // Transport::address_blob()
};

constexpr size_t kMaxAddressBytes = 4096;

// ResourceExhausted above kMaxAddressBytes.
absl::StatusOr<std::string> SerializeAddress(const NodeAddress& address);

// InvalidArgument on anything that SerializeAddress did not make; comes from the network.
absl::StatusOr<NodeAddress> ParseAddress(std::string_view bytes);

}  // namespace longhaul
