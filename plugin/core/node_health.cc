// Timers of a node: heartbeats, silent or stuck peers, overdue operations.
#include <algorithm>

#include <fmt/format.h>

#include "plugin/core/node_core.h"

namespace longhaul {
namespace {

constexpr int kBeatsPerDeadline = 5;
// However long the deadline: who has restarted must answer that it knows nothing of us.
constexpr absl::Duration kLongestBeat = absl::Seconds(30);

}  // namespace

void NodeCore::OnTimer() {
  const absl::Duration now = clock().Now();
  if (leaving_) return CheckLeft();
  absl::Duration next = CheckHealth(now);
  const auto groups = groups_;  // callbacks may close groups
  for (const auto& [hash, group] : groups) next = std::min(next, group->OnTimer(now));
  CheckWaiters();
  for (const auto& waiter : waiters_) next = std::min(next, waiter->deadline);
  WakeAt(next);
}

// Silence counts from the last packet of any kind; being stuck counts from the last time that the
// peer acknowledged more of our data while some was on its way.
absl::Duration NodeCore::CheckHealth(absl::Duration now) {
  if (now < next_beat_) return next_beat_;
  absl::Duration interval = std::min(kLongestBeat, options_.peer_deadline / kBeatsPerDeadline);
  for (const auto& [id, peer] : peers_) {
    interval = std::min(interval, peer->address().deadline / kBeatsPerDeadline);
  }
  // This process itself was stopped or starved: what the peers said meanwhile has not been read
  // yet.
  const bool late = now - next_beat_ > interval;
  std::vector<Peer*> all;
  for (const auto& [id, peer] : peers_) all.push_back(peer.get());
  for (Peer* peer : all) {
    if (!peer->usable()) continue;
    if (late) {
      const absl::Duration grace = now - options_.peer_deadline + interval;
      peer->last_heard = std::max(peer->last_heard, grace);
      peer->last_progress = std::max(peer->last_progress, grace);
    }
    if (peer->acknowledged_bytes >= peer->outbox().sent_bytes()) peer->last_progress = now;
    if (now - peer->last_heard > options_.peer_deadline) {
      Lose(*peer,
           absl::UnavailableError(fmt::format("silent for the deadline of {}",
                                              absl::FormatDuration(options_.peer_deadline))));
    } else if (now - peer->last_progress > options_.peer_deadline) {
      Lose(*peer, absl::UnavailableError(
                      fmt::format("took {} of {} bytes sent and no more for the deadline of {}",
                                  peer->acknowledged_bytes, peer->outbox().sent_bytes(),
                                  absl::FormatDuration(options_.peer_deadline))));
    } else {
      peer->SendControl({.kind = PacketKind::kHeartbeat, .sequence = peer->received_bytes()});
    }
  }
  next_beat_ = now + interval;
  return next_beat_;
}

std::string NodeCore::Seen(const Peer& peer, absl::Duration now) const {
  return fmt::format("last byte seen {} ago, {} data bytes from it in all",
                     absl::FormatDuration(now - peer.last_heard), peer.received_bytes());
}

}  // namespace longhaul
