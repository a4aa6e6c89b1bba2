#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compressors/frame_receiver.h"
#include "plugin/core/group_context.h"
#include "plugin/core/once.h"

namespace longhaul {

// The receiving half of one group: pairs messages with posted receives, strictly first in first out
// per channel, and moves payload into tensors: raw values packet by packet, codec frames decoded
// straight from the transport's buffer when they came in one packet. On the strand.
class Matcher {
 public:
  explicit Matcher(GroupContext* context) : context_(context) {}

  // `done` may run inside the call.
  void Receive(const WireTensor& x, int src, ChannelSpace space, int tag, Group::Done done);
  void ReceiveAny(const WireTensor& x, int tag, Group::DoneFrom done);

  void OnData(Peer& peer, const PacketHeader& header, ArrivedPayload& payload);
  void OnPeerGone(int rank);
  void OnStarving(int rank);  // tells the peer which messages are wanted

  absl::Duration Expire(absl::Duration now);
  void FailAll(const absl::Status& why);
  void FailChannel(const ChannelKey& key, const absl::Status& why);
  void Forget(const ChannelKey& key);  // a channel that carries nothing more
  size_t outstanding() const { return outstanding_; }

  // Group::SaveState: false when a receive waits; of point-to-point channels, the number of the
  // first message that no receive has taken, and the states of codecs that keep one at this end, by
  // slot.
  bool quiet() const;
  std::map<ChannelKey, uint64_t> sequences() const;
  const std::vector<FrameReceiver>& receivers(const ChannelKey& key) const;
  void Restore(const ChannelKey& key, uint64_t next, std::vector<FrameReceiver> receivers);

 private:
  // A posted receive. Without `done` it has failed already and only takes its message away.
  struct Receipt {
    WireTensor x;
    ChannelSpace space;
    int tag;
    uint64_t stamp;  // order of posting
    absl::Duration deadline;
    Once<absl::StatusOr<int>> done;
  };
  struct Arrival;  // a message, whole or in part
  struct Channel {
    uint64_t next_sequence = 0;  // of the next message that begins
    uint64_t wanted_below = 0;   // what the peer has been told
    std::deque<std::shared_ptr<Receipt>> posted;
    std::deque<std::shared_ptr<Arrival>> unmatched;
    std::vector<std::shared_ptr<Arrival>> incomplete;
    // Whole frames that are differences to what an earlier one, not yet whole, will leave.
    std::vector<std::shared_ptr<Arrival>> waiting;
    std::vector<FrameReceiver> receivers;  // by slot, as the sender's residuals
  };

  Channel& ChannelOf(const ChannelKey& key);
  std::shared_ptr<Arrival> Begin(Channel& channel, Peer& peer, const PacketHeader& header);
  std::shared_ptr<Receipt> PickReceipt(Channel& channel, const Arrival& arrival);
  bool Eligible(const Arrival& arrival) const;
  bool AnyUsable() const;
  void Account(Arrival& arrival, const PacketHeader& header, std::span<const std::byte> payload);
  void MatchChannel(const ChannelKey& key);
  bool MatchAny(int tag);
  void Bind(Arrival& arrival, std::shared_ptr<Receipt> receipt);
  void Take(Arrival& arrival, std::span<const std::byte> bytes, uint64_t offset);
  void Finish(const std::shared_ptr<Arrival>& arrival);
  absl::Status Fits(const Arrival& arrival, const Receipt& receipt) const;
  void Decode(Arrival& arrival, std::span<const std::byte> frame);
  size_t SlotOf(const Arrival& arrival) const;
  bool MustWait(const Channel& channel, const Arrival& arrival) const;
  void FinishWaiting(const ChannelKey& key);
  void LetGo(Arrival& arrival);
  void Complete(Receipt& receipt, absl::StatusOr<int> result);
  void Fail(Receipt& receipt, std::string_view from, const absl::Status& why);
  std::string From(int rank, uint64_t sequence) const;
  void SendWant(const ChannelKey& key, Channel& channel);

  GroupContext* const context_;
  absl::flat_hash_map<ChannelKey, std::unique_ptr<Channel>> channels_;
  std::map<int, std::deque<std::shared_ptr<Receipt>>> any_;  // by tag, point-to-point
  uint64_t next_stamp_ = 0;
  uint64_t next_completion_ = 0;
  size_t outstanding_ = 0;
};

}  // namespace longhaul
