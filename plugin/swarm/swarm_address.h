#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace longhaul {

// Where a member of a swarm listens. IPv4 in digits: a device's name or a host's would leave open
// which address is meant.
struct SwarmAddress {
  std::string ip;     // "10.0.0.2"
  uint16_t port = 0;  // 0, to listen on: any free one
  bool operator==(const SwarmAddress&) const = default;
};
// "10.0.0.2:6881". InvalidArgument.
absl::StatusOr<SwarmAddress> ParseSwarmAddress(std::string_view text);
std::string ToString(const SwarmAddress& address);

// The IPv4 address from which packets to `host` would leave. "": there is no way to it, or the
// name is unknown.
std::string AddressToward(const std::string& host);

// The IPv4 address of this host's (or node's) interface. "": it has none, or is not there.
std::string AddressOfInterface(const std::string& interface);

// IPv4 addresses that belong to a swarm, both ends included, in host byte order.
struct MemberRange {
  uint32_t first, last;
};
// "10.0.0.2", or "10.0.0.0/16". InvalidArgument.
absl::StatusOr<MemberRange> ParseMember(std::string_view text);

}  // namespace longhaul
