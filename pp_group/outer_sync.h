#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "compressors/codec.h"
#include "pp_group/c10d_status.h"

namespace longhaul {

struct OuterSpec {
  int64_t inner_steps;  // H; 0: no outer step ever (G must be 1)
  double lr = 0.7;
  double momentum = 0.9;       // Nesterov
  std::string codec = "none";  // of the outer delta, e.g. "int4-b64-h64+ef"
};

// InvalidArgument for a codec whose frames decode only with a state at the receiving end (+ef21,
// aqsgd*): a rank decodes the frames of all its peers, and keeps a state for none.
absl::Status CheckOuterCodec(const Codec& codec);

// Whether an outer step follows inner step `step` (1-based): after every H, and after the last.
inline bool OuterStepIsDue(const OuterSpec& spec, int64_t step, int64_t steps) {
  return spec.inner_steps > 0 && (step % spec.inner_steps == 0 || step == steps);
}

// DiLoCo's outer step (Douillard et al. 2023) of one stage among its G peers:
//   outer_delta = theta_start - theta                               [N], after H inner steps
//   average     = sum over g = 0..G-1 of decode(encode(delta_g)) / G  the same order on every rank
//   momentum    = mu momentum + average
//   theta_start = theta_start - lr (average + mu momentum);  theta = theta_start
// Every rank decodes every frame, its own included, so all groups hold equal bits afterwards.
//
// Steps and bytes: one round, G-1 sends and receives per rank; a rank sends (G-1) (frame + 8)
// bytes: first the frame's length (one int64, because a codec's frames may vary in length), then
// the frame (uint8), to each peer. Length 0 says that the delta is not finite: every group then
// takes NaN, and the next loss reports it. Begin and Finish are apart so that one thread can drive
// several ranks: all begin, then all finish.
class OuterSync {
 public:
  // theta: [N] f32, contiguous, shared with the stage. `peers` is null when groups == 1.
  // NotFound, InvalidArgument: the codec.
  static absl::StatusOr<std::unique_ptr<OuterSync>> Create(const OuterSpec& spec, int group,
                                                           int groups, int stage, uint64_t seed,
                                                           at::Tensor theta,
                                                           c10::intrusive_ptr<c10d::Backend> peers);

  // `step` (1-based inner step) keys the codec's noise. Throws what c10d does.
  absl::Status Begin(int64_t step);
  absl::Status Finish();

  int64_t bytes_sent() const { return bytes_sent_; }  // of frames, by the last Begin

  // For checkpoints. [N] f32 each.
  const at::Tensor& theta_start() const { return theta_start_; }
  const at::Tensor& momentum() const { return momentum_; }
  // The codec's state as in compressors/saved_state.h; empty: it keeps none.
  std::vector<std::byte> SaveCodecState() const;
  // DataLoss, InvalidArgument: not what SaveCodecState writes for this codec and [N].
  absl::StatusOr<std::unique_ptr<CodecState>> ParseCodecState(
      std::span<const std::byte> saved) const;
  void SetCodecState(std::unique_ptr<CodecState> state) { state_ = std::move(state); }

 private:
  OuterSync() = default;
  absl::Status Add(std::span<const std::byte> frame);  // decodes and adds to average_

  OuterSpec spec_;
  int group_, groups_, stage_;
  uint64_t seed_;
  at::Tensor theta_, theta_start_, momentum_;
  c10::intrusive_ptr<c10d::Backend> peers_;
  std::shared_ptr<const Codec> codec_;
  std::unique_ptr<CodecState> state_;
  at::Tensor delta_, average_;                // [N]; delta_ is also where frames are decoded
  std::vector<at::Tensor> frames_, lengths_;  // uint8 [bytes], int64 [1]; by group
  std::vector<WorkPtr> received_, sent_;
  int64_t bytes_sent_ = 0;
};

}  // namespace longhaul
