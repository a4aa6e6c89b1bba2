#include "pp_group/group_average.h"

#include <limits>
#include <utility>

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "compressors/catalog.h"
#include "compressors/numbers/noise.h"
#include "compressors/saved_state.h"

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

absl::Status OfGroup(int group, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("outer frame of group ", group, ": ",
                                                  std::string(status.message())));
}

}  // namespace

absl::Status CheckOuterCodec(const Codec& codec) {
  if (!DecodingNeedsState(codec)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("outer codec '", std::string(codec.name()),
                   "' keeps a state at the receiving end, which the outer sync has not: use +ef"));
}

absl::StatusOr<std::unique_ptr<GroupAverage>> GroupAverage::Create(const std::string& codec,
                                                                   Place place, int64_t elements) {
  absl::StatusOr<std::shared_ptr<const Codec>> made = MakeCodec(codec);
  if (!made.ok()) return made.status();
  if (absl::Status status = CheckOuterCodec(**made); !status.ok()) return status;
  std::unique_ptr<GroupAverage> average(new GroupAverage);
  const auto groups = static_cast<size_t>(place.groups);
  average->place_ = std::move(place);
  average->shape_ = {1, static_cast<uint64_t>(elements)};
  average->codec_ = *std::move(made);
  average->state_ = average->codec_->NewState(average->shape_);
  average->average_ = at::empty({elements}, at::kFloat);
  average->frames_.resize(groups);
  average->lengths_.resize(groups);
  average->received_.resize(groups);
  return average;
}

std::vector<std::byte> GroupAverage::SaveCodecState() const {
  if (state_ == nullptr) return {};
  return SaveState(*codec_, *state_);
}

absl::StatusOr<std::unique_ptr<CodecState>> GroupAverage::ParseCodecState(
    std::span<const std::byte> saved) const {
  if (saved.empty() && state_ == nullptr) return std::unique_ptr<CodecState>();
  const absl::StatusOr<SavedState> parsed = ParseSavedState(saved);
  if (!parsed.ok()) return parsed.status();
  if (!(parsed->shape == shape_)) {
    return absl::InvalidArgumentError(absl::StrCat("saved state of ", parsed->shape.elements(),
                                                   " elements, this stage has ",
                                                   shape_.elements()));
  }
  return RestoreState(*codec_, *parsed);
}

absl::Status GroupAverage::Begin(int64_t step, const at::Tensor& own) {
  at::Tensor frame =
      at::empty({static_cast<int64_t>(codec_->MaxFrameBytes(shape_, DType::kF32))}, at::kByte);
  int64_t bytes = 0;
  if (at::isfinite(own).all().item<bool>()) {
    const uint64_t noise =
        FoldSeed({place_.seed, static_cast<uint64_t>(step), static_cast<uint64_t>(place_.stage),
                  kOuterDirection, 0, static_cast<uint64_t>(place_.group)});
    absl::StatusOr<size_t> encoded =
        codec_->Encode(WholeOf(own), noise, state_.get(), BytesOf(frame));
    if (!encoded.ok()) return encoded.status();
    bytes = static_cast<int64_t>(*encoded);
  }
  const int own_group = place_.group;
  frames_[own_group] = frame.narrow(0, 0, bytes);
  lengths_[own_group] = at::full({1}, bytes, at::kLong);
  bytes_sent_ = 0;
  for (int g = 0; g < place_.groups; ++g) {
    if (g == own_group) continue;
    lengths_[g] = at::empty({1}, at::kLong);
    received_[g] = ReceiveTensor(*place_.peers, lengths_[g], g);
    sent_.push_back(SendTensor(*place_.peers, lengths_[own_group], g));
    if (bytes > 0) sent_.push_back(SendTensor(*place_.peers, frames_[own_group], g));
    bytes_sent_ += bytes;
  }
  return absl::OkStatus();
}

absl::StatusOr<at::Tensor> GroupAverage::Finish(const at::Tensor& scratch) {
  const auto limit = static_cast<int64_t>(codec_->MaxFrameBytes(shape_, DType::kF32));
  for (int g = 0; g < place_.groups; ++g) {
    if (g == place_.group) continue;
    WaitAndReset(&received_[g]);
    const int64_t bytes = lengths_[g].item<int64_t>();
    if (bytes < 0 || bytes > limit) {
      return OfGroup(g, absl::DataLossError(absl::StrCat("it has ", bytes, " bytes, at most ",
                                                         limit, " are possible")));
    }
    frames_[g] = at::empty({bytes}, at::kByte);
    if (bytes > 0) received_[g] = ReceiveTensor(*place_.peers, frames_[g], g);
  }
  average_.zero_();
  for (int g = 0; g < place_.groups; ++g) {
    WaitAndReset(&received_[g]);
    if (absl::Status s = Add(BytesOf(frames_[g]), scratch); !s.ok()) return OfGroup(g, s);
  }
  average_.div_(static_cast<double>(place_.groups));
  for (WorkPtr& work : sent_) WaitAndReset(&work);
  sent_.clear();
  return average_;
}

absl::Status GroupAverage::Add(std::span<const std::byte> frame, const at::Tensor& scratch) {
  if (frame.empty()) {
    average_.fill_(std::numeric_limits<double>::quiet_NaN());
    return absl::OkStatus();
  }
  // Decoding needs no state: what error feedback keeps belongs to the sender.
  if (absl::Status status = DecodeFrame(frame, WholeOf(scratch)); !status.ok()) return status;
  average_.add_(scratch);
  return absl::OkStatus();
}

}  // namespace longhaul
