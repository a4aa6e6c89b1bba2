#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "plugin/core/address.h"
#include "plugin/core/group.h"

namespace longhaul {

// Equal on all ranks, different for groups of one name made one after another on the same nodes.
uint64_t GroupHash(const GroupOptions& options, const std::vector<NodeAddress>& addresses);

// The addresses of a group's ranks, of which this node, `node_id`, is options.rank. InvalidArgument:
// what is wrong with the options or with which of them.
absl::StatusOr<std::vector<NodeAddress>> ParseAll(uint64_t node_id, const GroupOptions& options,
                                                  const std::vector<std::string>& addresses);

}  // namespace longhaul
