// How a node waits for its peers to be ready.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "plugin/core/node_core.h"

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

absl::Status NodeCore::Connect(const std::vector<NodeAddress>& addresses, absl::Duration timeout) {
  auto waiter = std::make_shared<Waiter>();
  waiter->deadline = clock().Now() + timeout;
  const bool posted = Post([this, self = shared_from_this(), waiter, addresses] {
    const auto unknown = [this](const NodeAddress& address) {
      return address.node_id != node_id_ && FindPeer(address.node_id) == nullptr;
    };
    const auto fresh = std::count_if(addresses.begin(), addresses.end(), unknown);
    if (absl::Status s = transport_->CheckRoom(static_cast<int>(fresh)); !s.ok()) {
      return waiter->Finish(std::move(s));
    }
    for (size_t rank = 0; rank < addresses.size(); ++rank) {
      if (addresses[rank].node_id == node_id_) continue;
      absl::StatusOr<Peer*> peer = EnsurePeer(addresses[rank]);
      if (!peer.ok()) return waiter->Finish(Waiter::Named(rank, peer.status()));
      waiter->peers.emplace_back(rank, *peer);
    }
    waiters_.push_back(waiter);
    WakeAt(waiter->deadline);
    CheckWaiters();
  });
  if (!posted) return end_status();
  return waiter->Wait();
}

void NodeCore::CheckWaiters() {
  const absl::Duration now = clock().Now();
  std::erase_if(waiters_, [&](const std::shared_ptr<Waiter>& waiter) {
    const absl::StatusOr<bool> ready = waiter->Check(now);
    if (ready.ok() && !*ready) return false;
    waiter->Finish(ready.status());
    return true;
  });
}

}  // namespace longhaul
