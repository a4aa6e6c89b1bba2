#include "plugin/core/node_waiter.h"

#include <fmt/format.h>

namespace longhaul {

absl::StatusOr<bool> NodeCore::Waiter::Check(absl::Duration now) const {
  for (const Peer* peer : peers) {
    if (!peer->usable()) return peer->why();
    if (peer->state() == Peer::State::kReady) continue;
    if (now < deadline) return false;
    return absl::DeadlineExceededError(
        fmt::format("connect: {} did not answer in time", peer->ToString()));
  }
  return true;
}

void NodeCore::Waiter::Finish(absl::Status status) {
  const std::lock_guard lock(mu_);
  if (done_) return;
  done_ = true;
  status_ = std::move(status);
  finished_.notify_all();
}

absl::Status NodeCore::Waiter::Wait() {
  std::unique_lock lock(mu_);
  finished_.wait(lock, [this] { return done_; });
  return status_;
}

}  // namespace longhaul
