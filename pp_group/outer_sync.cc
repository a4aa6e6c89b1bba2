#include "pp_group/outer_sync.h"

#include <limits>

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "compressors/catalog.h"
#include "compressors/noise.h"
#include "compressors/saved_state.h"
#include "pp_group/kernels/kernels.h"

namespace longhaul {
namespace {

// The third word of FoldSeed: directions 0 and 1 are the pipeline's.
constexpr uint64_t kOuterDirection = 2;

Tensor WholeOf(const at::Tensor& x) {
  return {x.data_ptr<float>(), DType::kF32, {1, static_cast<uint64_t>(x.numel())}};
}

std::span<std::byte> BytesOf(const at::Tensor& x) {
  return {reinterpret_cast<std::byte*>(x.data_ptr<uint8_t>()), static_cast<size_t>(x.numel())};
}

}  // namespace

absl::Status CheckOuterCodec(const Codec& codec) {
  if (!DecodingNeedsState(codec)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("outer codec '", std::string(codec.name()),
                   "' keeps a state at the receiving end, which the outer sync has not: use +ef"));
}

absl::StatusOr<std::unique_ptr<OuterSync>> OuterSync::Create(
    const OuterSpec& spec, int group, int groups, int stage, uint64_t seed, at::Tensor theta,
    c10::intrusive_ptr<c10d::Backend> peers) {
  absl::StatusOr<std::shared_ptr<const Codec>> codec = MakeCodec(spec.codec);
  if (!codec.ok()) return codec.status();
  if (absl::Status status = CheckOuterCodec(**codec); !status.ok()) return status;
  std::unique_ptr<OuterSync> sync(new OuterSync);
  sync->spec_ = spec;
  sync->group_ = group;
  sync->groups_ = groups;
  sync->stage_ = stage;
  sync->seed_ = seed;
  sync->theta_start_ = theta.clone();
  sync->momentum_ = at::zeros_like(theta);
  sync->delta_ = at::empty_like(theta);
  sync->average_ = at::empty_like(theta);
  sync->theta_ = std::move(theta);
  sync->peers_ = std::move(peers);
  sync->codec_ = *std::move(codec);
  sync->state_ = sync->codec_->NewState(WholeOf(sync->delta_).shape);
  sync->frames_.resize(groups);
  sync->lengths_.resize(groups);
  sync->received_.resize(groups);
  return sync;
}

std::vector<std::byte> OuterSync::SaveCodecState() const {
  if (state_ == nullptr) return {};
  return SaveState(*codec_, *state_);
}

absl::StatusOr<std::unique_ptr<CodecState>> OuterSync::ParseCodecState(
    std::span<const std::byte> saved) const {
  if (saved.empty() && state_ == nullptr) return std::unique_ptr<CodecState>();
  const absl::StatusOr<SavedState> parsed = ParseSavedState(saved);
  if (!parsed.ok()) return parsed.status();
  if (const Shape own = WholeOf(delta_).shape; !(parsed->shape == own)) {
    return absl::InvalidArgumentError(absl::StrCat("saved state of ", parsed->shape.elements(),
                                                   " elements, this stage has ", own.elements()));
  }
  return RestoreState(*codec_, *parsed);
}

absl::Status OuterSync::Begin(int64_t step) {
  at::sub_out(delta_, theta_start_, theta_);
  const Tensor delta = WholeOf(delta_);
  at::Tensor frame =
      at::empty({static_cast<int64_t>(codec_->MaxFrameBytes(delta.shape, DType::kF32))}, at::kByte);
  int64_t bytes = 0;
  if (at::isfinite(delta_).all().item<bool>()) {
    const uint64_t noise =
        FoldSeed({seed_, static_cast<uint64_t>(step), static_cast<uint64_t>(stage_),
                  kOuterDirection, 0, static_cast<uint64_t>(group_)});
    absl::StatusOr<size_t> encoded = codec_->Encode(delta, noise, state_.get(), BytesOf(frame));
    if (!encoded.ok()) return encoded.status();
    bytes = static_cast<int64_t>(*encoded);
  }
  frames_[group_] = frame.narrow(0, 0, bytes);
  lengths_[group_] = at::full({1}, bytes, at::kLong);
  bytes_sent_ = 0;
  for (int g = 0; g < groups_; ++g) {
    if (g == group_) continue;
    lengths_[g] = at::empty({1}, at::kLong);
    received_[g] = ReceiveTensor(*peers_, lengths_[g], g);
    sent_.push_back(SendTensor(*peers_, lengths_[group_], g));
    if (bytes > 0) sent_.push_back(SendTensor(*peers_, frames_[group_], g));
    bytes_sent_ += bytes;
  }
  return absl::OkStatus();
}

absl::Status OuterSync::Finish() {
  const auto limit =
      static_cast<int64_t>(codec_->MaxFrameBytes(WholeOf(delta_).shape, DType::kF32));
  for (int g = 0; g < groups_; ++g) {
    if (g == group_) continue;
    WaitAndReset(&received_[g]);
    const int64_t bytes = lengths_[g].item<int64_t>();
    if (bytes < 0 || bytes > limit) {
      return absl::DataLossError(absl::StrCat("outer delta of group ", g, ": a frame of ", bytes,
                                              " bytes, at most ", limit, " are possible"));
    }
    frames_[g] = at::empty({bytes}, at::kByte);
    if (bytes > 0) received_[g] = ReceiveTensor(*peers_, frames_[g], g);
  }
  average_.zero_();
  for (int g = 0; g < groups_; ++g) {
    WaitAndReset(&received_[g]);
    if (absl::Status status = Add(BytesOf(frames_[g])); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat("outer delta of group ", g, ": ",
                                                      std::string(status.message())));
    }
  }
  average_.div_(static_cast<double>(groups_));
  BestKernels().nesterov(average_.data_ptr<float>(), static_cast<size_t>(average_.numel()),
                         static_cast<float>(spec_.lr), static_cast<float>(spec_.momentum),
                         momentum_.data_ptr<float>(), theta_start_.data_ptr<float>(),
                         theta_.data_ptr<float>());
  for (WorkPtr& work : sent_) WaitAndReset(&work);
  sent_.clear();
  return absl::OkStatus();
}

absl::Status OuterSync::Add(std::span<const std::byte> frame) {
  if (frame.empty()) {
    average_.fill_(std::numeric_limits<double>::quiet_NaN());
    return absl::OkStatus();
  }
  // Decoding needs no state: what error feedback keeps belongs to the sender.
  if (absl::Status status = DecodeFrame(frame, WholeOf(delta_)); !status.ok()) return status;
  average_.add_(delta_);
  return absl::OkStatus();
}

}  // namespace longhaul
