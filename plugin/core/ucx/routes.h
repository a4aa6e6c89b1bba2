#pragma once

#include <optional>
#include <string>

namespace longhaul {

// How this network namespace would reach a host.
struct Route {
  std::string source;     // own numeric address that the host would see
  std::string interface;  // that has this address
};

// `host`: a name or a numeric address, asked of the kernel without sending anything. nullopt: it has
// no address that this namespace has a route to.
std::optional<Route> RouteTo(const std::string& host);

}  // namespace longhaul
