#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "plugin/core/address.h"
#include "plugin/core/outbox.h"
#include "plugin/core/transport.h"

namespace longhaul {

constexpr size_t kPacketPayloadBytes = 256 << 10;

// Another node, as seen from this one: its link, the sending half (Outbox), the receiving half's
// credit, and what is known of its health. Used on the strand only.
class Peer {
 public:
  // kLeft: said goodbye; kLost: died, fell silent or broke the protocol. Both keep `why()`.
  enum class State { kConnecting, kReady, kLeft, kLost };

  // `window` is this node's own credit_bytes, what the peer may send here untaken.
  // `traffic` must outlive the peer.
  Peer(NodeAddress address, int64_t window, TrafficCounters* traffic,
       std::function<void(Peer&, absl::Status)> lost);

  void Open(std::unique_ptr<Link> link, uint64_t own_node_id);

  State state() const { return state_; }
  bool usable() const { return state_ == State::kConnecting || state_ == State::kReady; }
  const absl::Status& why() const { return why_; }
  const NodeAddress& address() const { return address_; }
  std::string ToString() const;  // "node 00c0ffee..."
  Outbox& outbox() { return outbox_; }

  void SetReady() { state_ = State::kReady; }
  // Everything towards it fails with `why`; the link is cut. No effect when already gone.
  void SetGone(State state, absl::Status why);

  // Link::Cross, while it is usable and nothing of ours is on its way there.
  bool Cross(Crossing& crossing);

  // One small packet past the data. `header` needs kind and what the kind uses.
  void SendControl(PacketHeader header, std::string payload = {}, Lane lane = Lane::kControl);

  // After all data that has been submitted.
  void SayGoodbye(uint16_t flags, const std::string& reason);

  // Data bytes (headers included) that have arrived / that a receive has taken or that were
  // dropped.
  void Received(size_t bytes) { received_ += bytes; }
  void Release(size_t bytes);
  uint64_t received_bytes() const { return received_; }
  // So much is held untaken that the peer may run out of credit: it must be told what is wanted.
  bool starving() const { return received_ - released_ > static_cast<uint64_t>(window_) / 2; }

  // Health, used by PeerWatch.
  absl::Duration last_heard = absl::ZeroDuration();     // any packet
  absl::Duration last_progress = absl::ZeroDuration();  // it acknowledged data, or had none to
  uint64_t acknowledged_bytes = 0;
  bool hello_seen = false;
  bool goodbye_pending = false;
  int64_t hello_bytes = 0;  // of the probe, when it must cross the interface

 private:
  NodeAddress address_;
  const int64_t window_;
  TrafficCounters* const traffic_;
  const std::function<void(Peer&, absl::Status)> lost_;
  State state_ = State::kConnecting;
  absl::Status why_;
  uint64_t own_node_id_ = 0;
  std::unique_ptr<Link> link_;
  Outbox outbox_;
  uint64_t received_ = 0, released_ = 0, reported_ = 0;
};

}  // namespace longhaul
