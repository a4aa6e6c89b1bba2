#pragma once

#include <map>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "plugin/core/group_context.h"

namespace longhaul {

// The sending half of one group: encodes, numbers and submits messages. On the strand.
class Sender {
 public:
  explicit Sender(GroupContext* context) : context_(context) {}

  // `done` may run inside the call. The values are read until it has run.
  void Send(const WireTensor& x, int dst, ChannelSpace space, int tag, Group::Done done);

  // The receiver has posted receives for every message of that channel below `below`.
  void OnWant(const ChannelKey& key, uint64_t below);

  // Cancels what is overdue; answers the earliest deadline left.
  absl::Duration Expire(absl::Duration now);
  void CancelAll(const absl::Status& why);
  void CancelChannels(ChannelSpace space, int tag, const absl::Status& why);  // to every rank
  void Forget(const ChannelKey& key) { channels_.erase(key); }
  size_t outstanding() const { return pending_.size(); }

  // Numbers and residuals of the point-to-point channels, for Group::SaveState.
  struct Channel {
    uint64_t next_sequence = 0;
    uint64_t wanted_below = 0;
    std::vector<std::unique_ptr<CodecState>> residuals;  // states of the codec, by slot
  };
  std::map<ChannelKey, const Channel*> point_to_point() const;
  Channel& ChannelOf(const ChannelKey& key);
  // How many frames were encoded for each rank: every n-th is sampled.
  const std::vector<int64_t>& encoded_frames() const { return encoded_frames_; }
  void set_encoded_frames(std::vector<int64_t> frames) { encoded_frames_ = std::move(frames); }

 private:
  void Cancel(absl::FunctionRef<bool(const PacketHeader&)> which, const absl::Status& why);
  struct Pending {
    std::shared_ptr<OutMessage> message;
    absl::Duration deadline;
    int dst;
  };
  struct Encoded {
    PooledBuffer frame;
    absl::Duration time;
    std::string_view codec;  // empty: raw
  };
  absl::StatusOr<Encoded> Encode(const Codec& codec, const WireTensor& x,
                                 const PacketHeader& header, int dst, Channel& channel);
  void SampleNmse(std::span<const std::byte> frame, const Tensor& x, const CodecState* state,
                  int dst);
  void ForgetMirror(const PacketHeader& header, int dst);
  std::string Describe(const PacketHeader& header, int dst) const;

  GroupContext* const context_;
  absl::flat_hash_map<ChannelKey, std::unique_ptr<Channel>> channels_;
  absl::flat_hash_map<const OutMessage*, Pending> pending_;
  std::vector<int64_t> encoded_frames_;  // by rank, for NMSE sampling
};

}  // namespace longhaul
