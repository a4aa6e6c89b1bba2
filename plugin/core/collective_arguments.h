#pragma once

#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "plugin/core/group.h"

namespace longhaul {

// What one rank can see of a collective's arguments before it asks the others. InvalidArgument: what
// does not fit what, with the rank and the group.
absl::Status CheckRoot(const GroupOptions& options, int root, std::string_view what);
absl::Status CheckAllGather(const GroupOptions& options, const WireTensor& in,
                            const WireTensor& out);
absl::Status CheckAllToAll(const GroupOptions& options, const WireTensor& in,
                           const std::vector<int64_t>& send_counts, const WireTensor& out,
                           const std::vector<int64_t>& recv_counts);
absl::Status CheckReduceScatter(const GroupOptions& options, const WireTensor& in,
                                const std::vector<int64_t>& counts, const WireTensor& out,
                                ReduceOp op);
absl::Status CheckGather(const GroupOptions& options, const WireTensor& in,
                         const std::vector<WireTensor>& out, int root);
absl::Status CheckScatter(const GroupOptions& options, const std::vector<WireTensor>& in,
                          const WireTensor& out, int root);

}  // namespace longhaul
