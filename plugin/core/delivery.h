#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compressors/frame_receiver.h"
#include "plugin/core/arrival.h"
#include "plugin/core/crossing.h"
#include "plugin/core/host_coder.h"

namespace longhaul {

// From the moment that a receive has taken a message to the receive's end: checks that they fit,
// brings values to their tensor packet by packet, has frames decoded, those with a state in the
// order of their numbers. On the strand.
class Delivery {
 public:
  explicit Delivery(GroupContext* context) : context_(context) {}

  // `arrival` and `receipt` belong together from now on; takes what is held of it.
  void Bind(const std::shared_ptr<Arrival>& arrival, std::shared_ptr<Receipt> receipt);
  // The next bytes of a bound message, beginning at `offset`.
  void Take(const std::shared_ptr<Arrival>& arrival, std::span<const std::byte> bytes,
            uint64_t offset);
  // It is complete, or has failed: ends its receive as soon as it is decoded.
  void Finish(const std::shared_ptr<Arrival>& arrival);
  // Decodes what only waited for messages that have gone from that channel.
  void FinishWaiting(const ChannelKey& key);
  // A crossing into that receive's tensor. False: it must come as packets, and the receive waits on.
  bool Fill(Crossing& crossing, const Receipt& receipt) const;
  // It is filled: ends the receive.
  void Crossed(const Crossing& crossing, const std::shared_ptr<Receipt>& receipt);

  // Nothing more comes of it.
  void Drop(const std::shared_ptr<Arrival>& arrival, const absl::Status& why);

  // Bound and not finished, in order.
  const std::vector<std::shared_ptr<Arrival>>& Open(const ChannelKey& key) const;

  void Opened() { ++outstanding_; }  // a receive was posted
  size_t outstanding() const { return outstanding_; }
  void Complete(const std::shared_ptr<Receipt>& receipt, absl::StatusOr<int> result);
  // Completes it with an error that says what and, by `from`, whom it waited for.
  void Fail(const std::shared_ptr<Receipt>& receipt, std::string_view from,
            const absl::Status& why);

  void Forget(const ChannelKey& key) { channels_.erase(key); }
  void ForgetAll() { channels_.clear(); }
  // A decoder is at work for that channel, or a message waits for one.
  bool quiet() const;

  // The states of codecs that keep one at this end, by slot.
  using Receivers = std::vector<std::shared_ptr<FrameReceiver>>;
  const Receivers& receivers(const ChannelKey& key) const;
  void Restore(const ChannelKey& key, std::vector<FrameReceiver> receivers);

 private:
  struct Channel {
    std::vector<std::shared_ptr<Arrival>> open;
    Receivers receivers;
  };

  absl::Status Fits(const Arrival& arrival) const;
  void Decode(const std::shared_ptr<Arrival>& arrival, DecodeJob job);
  void DecodePiece(const std::shared_ptr<Arrival>& arrival);
  void DecodeWhole(const std::shared_ptr<Arrival>& arrival);
  void OnDecoded(const std::shared_ptr<Arrival>& arrival, DecodeResult result);
  void Conclude(const std::shared_ptr<Arrival>& arrival);
  size_t SlotOf(const Arrival& arrival) const;
  bool MustWait(const Arrival& arrival) const;
  std::shared_ptr<FrameReceiver> ReceiverOf(const Arrival& arrival);

  GroupContext* const context_;
  absl::flat_hash_map<ChannelKey, std::unique_ptr<Channel>> channels_;
  size_t outstanding_ = 0;
};

ChannelKey KeyOf(const Arrival& arrival);

}  // namespace longhaul
