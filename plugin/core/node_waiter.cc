#include "plugin/core/node_waiter.h"

#include <fmt/format.h>

namespace longhaul {

absl::Status NodeCore::Waiter::Named(size_t rank, const absl::Status& why) {
  return absl::Status(why.code(),
                      fmt::format("connect to rank {}: {}", rank, std::string(why.message())));
}

absl::StatusOr<bool> NodeCore::Waiter::Check(absl::Duration now) const {
  for (const auto& [rank, peer] : peers) {
    if (!peer->usable()) return Named(rank, peer->why());
    if (peer->state() == Peer::State::kReady) continue;
    if (now < deadline) return false;
    return Named(rank, absl::DeadlineExceededError(peer->ToString() + " did not answer in time"));
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
