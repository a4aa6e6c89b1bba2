// How two nodes meet and part: hello, welcome, goodbye, the small packets between, and how others wait for
// that.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "plugin/core/greeting.h"
#include "plugin/core/node_core.h"

namespace longhaul {
namespace {

// Opens the connection's congestion window a little and is big enough to be told from noise in the
// interface's byte counter.
constexpr size_t kProbeBytes = kMaxGreetingBytes;

std::string TextOf(std::span<const std::byte> payload) {
  return std::string(reinterpret_cast<const char*>(payload.data()), payload.size());
}

}  // namespace

absl::StatusOr<Peer*> NodeCore::EnsurePeer(const NodeAddress& address) {
  if (Peer* known = FindPeer(address.node_id)) {
    if (known->usable()) return known;
    return known->why();
  }
  if (leaving_) return end_status();
  ASSIGN_OR_RETURN(std::unique_ptr<Link> link, transport_->Connect(address.blob, address.node_id));
  auto peer =
      std::make_unique<Peer>(address, options_.credit_bytes, &traffic_,
                             [this](Peer& lost, absl::Status why) { Lose(lost, std::move(why)); });
  Peer& added = *peer;
  peers_.emplace(address.node_id, std::move(peer));
  added.Open(std::move(link), node_id_);
  added.last_heard = added.last_progress = clock().Now();
  SendHello(added);
  if (transport_->needs_heartbeat()) {  // its deadline may be shorter than the others'
    next_beat_ = clock().Now();
    WakeAt(next_beat_);
  }
  return &added;
}

void NodeCore::SendHello(Peer& peer) {
  const bool told = peer.address().key != NodeKey{};
  std::string payload =
      MakeGreeting(OwnAddress(), peer.address().node_id, told ? peer.address().key : key_,
                   transport_->needs_heartbeat() ? kProbeBytes : 0);
  if (transport_->InterfaceSentBytes().has_value() &&
      peer.address().network_id != transport_->network_id()) {
    peer.hello_bytes = static_cast<int64_t>(payload.size());
  }
  peer.SendControl({.kind = PacketKind::kHello}, std::move(payload), Lane::kBulk);
}

void NodeCore::OnControl(Peer* peer, const PacketHeader& header, ArrivedPayload& payload) {
  if (header.kind == PacketKind::kHello) return OnHello(peer, header, payload.bytes());
  if (peer == nullptr) {
    // A peer's first heartbeat may pass its greeting, which goes by the other lane.
    if (header.kind != PacketKind::kHeartbeat) RefuseStranger();
    return;
  }
  switch (header.kind) {
    case PacketKind::kWelcome:
      return OnWelcome(*peer);
    case PacketKind::kCredit:
      return peer->outbox().OnReleased(header.sequence);
    case PacketKind::kHeartbeat:
      if (header.sequence > peer->acknowledged_bytes) {
        peer->acknowledged_bytes = header.sequence;
        peer->last_progress = clock().Now();
      }
      return;
    case PacketKind::kGoodbye:
      return OnGoodbye(*peer, header, payload.bytes());
    case PacketKind::kGoodbyeSeen:
      peer->goodbye_pending = false;
      return CheckLeft();
    case PacketKind::kWant:
    case PacketKind::kWaits:
    case PacketKind::kGroupAbort: {
      const auto group = groups_.find(header.group);
      if (group == groups_.end()) return;
      const std::shared_ptr<GroupEndpoint> alive = group->second;
      if (header.kind == PacketKind::kWant) return alive->OnWant(*peer, header);
      if (header.kind == PacketKind::kWaits) {
        return alive->OnPeerWaits(*peer, header, TextOf(payload.bytes()));
      }
      return alive->OnPeerAborted(*peer, header, TextOf(payload.bytes()));
    }
    case PacketKind::kData:
    case PacketKind::kHello:
      return;
  }
}

void NodeCore::OnHello(Peer* peer, const PacketHeader& header, std::span<const std::byte> payload) {
  const absl::StatusOr<Greeting> greeting = ParseGreeting(payload);
  if (!greeting.ok() || greeting->address.node_id != header.source_node) return RefuseStranger();
  const bool proven =
      Proves(*greeting, node_id_, key_) || (peer != nullptr && peer->address().key != NodeKey{} &&
                                            Proves(*greeting, node_id_, peer->address().key));
  // Each peer greets once: whoever says the same again has overheard it.
  if (!proven || (peer != nullptr && peer->hello_seen)) return RefuseStranger();
  if (peer == nullptr) {
    const absl::StatusOr<Peer*> made = EnsurePeer(greeting->address);
    if (!made.ok()) return;
    peer = *made;
  }
  peer->hello_seen = true;
  peer->SendControl({.kind = PacketKind::kWelcome});
}

// The peer has our hello, so the probe has crossed; the kernel's counter must have seen it.
void NodeCore::OnWelcome(Peer& peer) {
  if (peer.state() != Peer::State::kConnecting) return;
  std::string proof = ", peers in this network namespace: their bytes cross lo";
  if (peer.hello_bytes > 0) {
    proven_bytes_ += peer.hello_bytes;
    const int64_t counted = transport_->InterfaceSentBytes().value_or(0) - interface_start_bytes_;
    if (counted < proven_bytes_) {
      return Lose(peer, absl::FailedPreconditionError(fmt::format(
                            "probe of {} bytes to {} arrived, but {} has sent only {} bytes: the "
                            "traffic takes another road than the shaped link",
                            proven_bytes_, peer.ToString(), transport_->description(), counted)));
    }
    proof = ", probe seen in the interface's counters";
  }
  if (transport_->needs_heartbeat()) {
    const std::lock_guard lock(mu_);
    if (proof_.find(proof) == std::string::npos) proof_ += proof;
  }
  peer.SetReady();
  CheckWaiters();
}

void NodeCore::OnGoodbye(Peer& peer, const PacketHeader& header,
                         std::span<const std::byte> payload) {
  peer.SendControl({.kind = PacketKind::kGoodbyeSeen});
  if ((header.flags & kPacketAborted) != 0) {
    return Gone(
        peer, Peer::State::kLost,
        absl::UnavailableError(fmt::format("{} aborted: {}", peer.ToString(), TextOf(payload))));
  }
  Gone(peer, Peer::State::kLeft,
       absl::UnavailableError(fmt::format("{} has left (goodbye)", peer.ToString())));
}

void NodeCore::OnLinkLost(uint64_t node_id, absl::Status why) {
  if (Peer* peer = FindPeer(node_id)) Lose(*peer, std::move(why));
}

void NodeCore::Lose(Peer& peer, absl::Status why) {
  const absl::Duration now = clock().Now();
  Gone(peer, Peer::State::kLost,
       absl::Status(why.code() == absl::StatusCode::kFailedPrecondition
                        ? why.code()
                        : absl::StatusCode::kUnavailable,
                    fmt::format("lost {}: {}; {}", peer.ToString(), std::string(why.message()),
                                Seen(peer, now))));
}

void NodeCore::Gone(Peer& peer, Peer::State state, absl::Status why) {
  if (!peer.usable()) return;
  peer.SetGone(state, std::move(why));
  const auto groups = groups_;  // callbacks may close groups
  for (const auto& [hash, group] : groups) group->OnPeerGone(peer);
  CheckWaiters();
  CheckLeft();
}

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
