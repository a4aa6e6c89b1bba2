#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "plugin/core/address.h"

namespace longhaul {

// The payload of a kHello: who greets, and the proof that it was let in. Each node draws a key, which
// reaches the ranks of its groups with its address, through their store, and nobody else. The proof
// is made with a key that both ends know: the greeted one's, which only who has read that store
// knows; or, by a node that answers whom it has no address of, its own.
//
//   u32 address bytes; the greeter's NodeAddress, its key left out; 16 bytes proof; padding (the probe)
//   proof: SipHash-2-4-128 under the key, of u64 node id of the greeted, then of the address as above
struct Greeting {
  NodeAddress address;         // without the key
  std::string signed_address;  // its bytes, as they came
  std::array<std::byte, 16> proof;
};

// More than this no greeting has.
constexpr size_t kMaxGreetingBytes = 64 << 10;

// `own`: the greeter's; its key is left out. `greeted`: the node id of the one it goes to. Padded
// with zeros to `padded_bytes`.
std::string MakeGreeting(NodeAddress own, uint64_t greeted, const NodeKey& key,
                         size_t padded_bytes);

// Comes from whoever found the port: InvalidArgument unless it is one. The proof is not looked at.
absl::StatusOr<Greeting> ParseGreeting(std::span<const std::byte> payload);

// In a time that does not depend on where the proofs differ.
bool Proves(const Greeting& greeting, uint64_t greeted, const NodeKey& key);

// A keyed hash that nobody without the key can tell from random (Aumasson and Bernstein, 2012).
std::array<std::byte, 16> SipHash128(const NodeKey& key, std::span<const std::byte> bytes);

}  // namespace longhaul
