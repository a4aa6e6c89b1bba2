#pragma once

#include <string>

#include <ucp/api/ucp.h>

#include "absl/status/statusor.h"
#include "plugin/core/node.h"

namespace longhaul {

// The one active message id: what a packet is stands in its header.
constexpr unsigned kUcxMessageId = 1;

// "what: reason", with UCX's own last complaint where it made one.
absl::Status UcxError(std::string_view what, ucs_status_t status);

// A UCP context that can do nothing but TCP over `interface` (unless shared memory is allowed), set
// in code. UCX's log goes nowhere unless the environment asks for it.
absl::StatusOr<ucp_context_h> OpenUcxContext(const NodeOptions& options,
                                             const std::string& interface);

// What the lanes of an endpoint really run over, e.g. "tcp/net0", read back from UCX.
// FailedPrecondition when a lane is anything else and `options` forbids it.
absl::StatusOr<std::string> CheckLanes(ucp_ep_h endpoint, const NodeOptions& options,
                                       const std::string& interface);

}  // namespace longhaul
