#include "plugin/core/group_members.h"

#include <fmt/format.h>

#include "compressors/numbers/noise.h"

namespace longhaul {

uint64_t GroupHash(const GroupOptions& options, const std::vector<NodeAddress>& addresses) {
  uint64_t hash = FoldSeed({options.name.size(), addresses.size()});
  for (const char c : options.name) hash = FoldSeed({hash, static_cast<unsigned char>(c)});
  for (const NodeAddress& a : addresses) hash = FoldSeed({hash, a.node_id, a.generation});
  return hash;
}

absl::StatusOr<std::vector<NodeAddress>> ParseAll(uint64_t node_id, const GroupOptions& options,
                                                  const std::vector<std::string>& addresses) {
  const auto bad = [&](std::string_view what) {
    return absl::InvalidArgumentError(fmt::format("group '{}': {}", options.name, what));
  };
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
    return bad(fmt::format("rank {} of {}", options.rank, options.size));
  }
  if (addresses.size() != static_cast<size_t>(options.size)) {
    return bad(fmt::format("{} addresses for {} ranks", addresses.size(), options.size));
  }
  if (options.timeout <= absl::ZeroDuration() || options.ef_slots < 1) {
    return bad("timeout and ef_slots must be positive");
  }
  std::vector<NodeAddress> parsed;
  for (size_t rank = 0; rank < addresses.size(); ++rank) {
    absl::StatusOr<NodeAddress> address = ParseAddress(addresses[rank]);
    if (!address.ok()) return bad(fmt::format("rank {}: {}", rank, address.status().ToString()));
    for (size_t other = 0; other < rank; ++other) {
      if (parsed[other].node_id == address->node_id) {
        return bad(fmt::format("ranks {} and {} are on one node", other, rank));
      }
    }
    parsed.push_back(*std::move(address));
  }
  if (parsed[static_cast<size_t>(options.rank)].node_id != node_id) {
    return bad(fmt::format("the address of rank {} is not this node's", options.rank));
  }
  return parsed;
}

}  // namespace longhaul
