#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "plugin/core/delivery.h"

namespace longhaul {

// The receiving half of one group: pairs messages with posted receives, strictly first in first out
// per channel; delivery.h takes each pair to its end. On the strand.
class Matcher {
 public:
  explicit Matcher(GroupContext* context) : context_(context), delivery_(context) {}

  // `done` may run inside the call.
  void Receive(const WireTensor& x, int src, ChannelSpace space, int tag, Group::Done done);
  void ReceiveAny(const WireTensor& x, int tag, Group::DoneFrom done);

  void OnData(Peer& peer, const PacketHeader& header, ArrivedPayload& payload);
  // TransportSink::OnCrossing, of a tensor point to point.
  bool Cross(Crossing& crossing);
  void OnPeerGone(int rank);
  void OnStarving(int rank);  // tells the peer which messages are wanted

  absl::Duration Expire(absl::Duration now);
  // The receive that has waited longest for one rank, if that is long.
  std::optional<LongWait> Longest(absl::Duration now) const;
  void FailAll(const absl::Status& why);
  void FailChannel(const ChannelKey& key, const absl::Status& why);
  void Forget(const ChannelKey& key);  // a channel that carries nothing more

  // Group::SaveState: false when a receive waits; of point-to-point channels, the number of the
  // first message that no receive has taken, and the states of codecs that keep one at this end, by
  // slot.
  bool quiet() const;
  std::map<ChannelKey, uint64_t> sequences() const;
  const Delivery::Receivers& receivers(const ChannelKey& key) const {
    return delivery_.receivers(key);
  }
  void Restore(const ChannelKey& key, uint64_t next, std::vector<FrameReceiver> receivers);

 private:
  struct Channel {
    uint64_t next_sequence = 0;  // of the next message that begins
    uint64_t wanted_below = 0;   // what the peer has been told
    std::deque<std::shared_ptr<Receipt>> posted;
    std::deque<std::shared_ptr<Arrival>> unmatched;
    std::vector<std::shared_ptr<Arrival>> incomplete;
  };

  // A receive that has not ended, and what has come for it.
  struct Waiting {
    ChannelKey key;  // rank kAnySource: of any rank
    std::shared_ptr<Receipt> receipt;
    std::shared_ptr<Arrival> arrival;  // nullptr: nothing yet
    uint64_t sequence;                 // of its message; of any rank: 0
    std::string From() const;          // "rank 2, sequence 7 (3 of 9 bytes arrived)"
    bool whole() const { return arrival != nullptr && arrival->complete; }
  };
  std::vector<Waiting> AllWaiting() const;
  std::vector<Waiting> WaitingOn(const ChannelKey& key) const;

  Channel& ChannelOf(const ChannelKey& key);
  std::shared_ptr<Receipt> NewReceipt(const WireTensor& x, ChannelSpace space, int tag,
                                      Group::DoneFrom done);
  std::shared_ptr<Arrival> Begin(Channel& channel, Peer& peer, const PacketHeader& header);
  std::shared_ptr<Receipt> PickReceipt(Channel& channel, const Arrival& arrival);
  bool Eligible(const Arrival& arrival) const;
  bool AnyUsable() const;
  void Pair(const std::shared_ptr<Arrival>& arrival, std::shared_ptr<Receipt> receipt);
  void MatchChannel(const ChannelKey& key);
  bool MatchAny(int tag);
  void SendWant(const ChannelKey& key, Channel& channel);

  GroupContext* const context_;
  Delivery delivery_;
  absl::flat_hash_map<ChannelKey, std::unique_ptr<Channel>> channels_;
  std::map<int, std::deque<std::shared_ptr<Receipt>>> any_;  // by tag, point-to-point
  uint64_t next_stamp_ = 0;
  uint64_t next_completion_ = 0;
};

}  // namespace longhaul
