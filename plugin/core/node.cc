#include "plugin/core/node.h"

#include <fmt/format.h>

#include "base/status_macros.h"
#include "plugin/core/loopback/transport.h"
#include "plugin/core/node_core.h"
#include "plugin/core/ucx/transport.h"

namespace longhaul {
namespace {

// One for each direction: a stage encodes what it sends while it decodes what it gets.
constexpr int kUcxCoderThreads = 2;

}  // namespace

int CoderThreads(const NodeOptions& options) {
  return options.coder_threads.value_or(
      options.transport == TransportKind::kLoopback ? 0 : kUcxCoderThreads);
}

absl::StatusOr<std::shared_ptr<Node>> Node::Create(const NodeOptions& options) {
  if (options.credit_bytes < kMinCreditBytes) {
    return absl::InvalidArgumentError(
        fmt::format("credit_bytes {}, at least {}", options.credit_bytes, kMinCreditBytes));
  }
  if (options.coder_threads.value_or(0) < 0 ||
      options.coder_threads.value_or(0) > kMaxCoderThreads) {
    return absl::InvalidArgumentError(
        fmt::format("coder_threads {}, 0 to {}", *options.coder_threads, kMaxCoderThreads));
  }
  if (options.peer_deadline <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        fmt::format("peer_deadline {}", absl::FormatDuration(options.peer_deadline)));
  }
  std::shared_ptr<Transport> transport;
  if (options.transport == TransportKind::kLoopback) {
    transport = LoopbackTransport::Create(options.clock);
  } else {
    ASSIGN_OR_RETURN(std::shared_ptr<UcxTransport> ucx, UcxTransport::Create(options));
    transport = std::move(ucx);
  }
  auto core = std::make_shared<NodeCore>(options, options.transport, std::move(transport));
  core->Start();
  if (core->address().empty()) {
    return absl::ResourceExhaustedError(
        fmt::format("the node's address exceeds {} bytes", kMaxAddressBytes));
  }
  // Callbacks on the strand may hold the core a little longer than the caller does; the node ends
  // when the caller lets go of it. So do its connections, though somebody may still have a weak
  // pointer, which keeps this function: peers wait for the end of what they have sent.
  Node* const node = core.get();
  return std::shared_ptr<Node>(node, [core = std::move(core)](Node*) mutable {
    core->Shutdown(NodeCore::End::kClean, absl::AbortedError("the node was closed"));
    core.reset();
  });
}

}  // namespace longhaul
