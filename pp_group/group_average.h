#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compressors/codec.h"
#include "pp_group/c10d_status.h"

namespace longhaul {

// InvalidArgument for a codec whose frames decode only with a state at the receiving end (+ef21,
// aqsgd*): a rank decodes the frames of all its peers, and keeps a state for none.
absl::Status CheckOuterCodec(const Codec& codec);

// The mean of one [N] of each of the G peers of a stage, with a codec on the way:
//   average = sum over g = 0..G-1 of decode(encode(x_g)) / G        the same order on every rank
// Every rank decodes every frame, its own included, so that all groups get equal bits. Outer deltas
// (outer_sync.h) and the gradients of synchronous data parallel training are averaged so.
//
// Steps and bytes: one round, G-1 sends and receives per rank; a rank sends (G-1) (frame + 8)
// bytes: first the frame's length (one int64, because a codec's frames may vary in length), then
// the frame (uint8), to each peer. Length 0 says that the values are not finite: every group then
// takes NaN, and the next loss reports it. Begin and Finish are apart so that one thread can drive
// several ranks: all begin, then all finish.
class GroupAverage {
 public:
  struct Place {
    int group, groups, stage;
    uint64_t seed;                            // of the codec's noise
    c10::intrusive_ptr<c10d::Backend> peers;  // null when groups == 1
  };

  // NotFound, InvalidArgument: the codec. `elements`: N.
  static absl::StatusOr<std::unique_ptr<GroupAverage>> Create(const std::string& codec, Place place,
                                                              int64_t elements);

  // Encodes `own` ([N] f32, contiguous) and sends it; `step` (1-based inner step) keys the codec's
  // noise. Throws what c10d does.
  absl::Status Begin(int64_t step, const at::Tensor& own);
  // [N]; valid until the next Begin. `scratch`: [N] f32, overwritten: what Begin was given, say.
  absl::StatusOr<at::Tensor> Finish(const at::Tensor& scratch);

  int64_t bytes_sent() const { return bytes_sent_; }  // of frames, by the last Begin

  // For checkpoints: the codec's state as in compressors/saved_state.h; empty: it keeps none.
  std::vector<std::byte> SaveCodecState() const;
  // DataLoss, InvalidArgument: not what SaveCodecState writes for this codec and [N].
  absl::StatusOr<std::unique_ptr<CodecState>> ParseCodecState(
      std::span<const std::byte> saved) const;
  void SetCodecState(std::unique_ptr<CodecState> state) { state_ = std::move(state); }

 private:
  GroupAverage() = default;
  absl::Status Add(std::span<const std::byte> frame, const at::Tensor& scratch);

  Place place_ = {};
  Shape shape_ = {};
  std::shared_ptr<const Codec> codec_;
  std::unique_ptr<CodecState> state_;
  at::Tensor average_;                        // [N]
  std::vector<at::Tensor> frames_, lengths_;  // uint8 [bytes], int64 [1]; by group
  std::vector<WorkPtr> received_, sent_;
  int64_t bytes_sent_ = 0;
};

}  // namespace longhaul
