#include "pp_group/group_average.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
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

// In the order of the values, so that it has equal bits on every host.
double SquaredNorm(const at::Tensor& x) {
  double sum = 0;
  const float* values = x.const_data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) sum += static_cast<double>(values[i]) * values[i];
  return sum;
}

// Without the copies that at::isfinite makes on its way.
bool AllFinite(const at::Tensor& x) {
  constexpr uint32_t kExponent = 0x7F800000;
  const float* values = x.const_data_ptr<float>();
  uint32_t bad = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    bad |= static_cast<uint32_t>((std::bit_cast<uint32_t>(values[i]) & kExponent) == kExponent);
  }
  return bad == 0;
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
  std::vector<int> all(static_cast<size_t>(place.groups));
  std::iota(all.begin(), all.end(), 0);
  average->place_ = std::move(place);
  average->SetMembers(std::move(all), average->place_.peers);
  average->shape_ = {1, static_cast<uint64_t>(elements)};
  average->codec_ = *std::move(made);
  average->state_ = average->codec_->NewState(average->shape_);
  average->average_ = at::empty({elements}, at::kFloat);
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

void GroupAverage::SetMembers(std::vector<int> members, c10::intrusive_ptr<c10d::Backend> peers) {
  members_ = std::move(members);
  place_.peers = std::move(peers);
}

absl::Status GroupAverage::Encode(int64_t step, const at::Tensor& own) {
  at::Tensor frame =
      at::empty({static_cast<int64_t>(codec_->MaxFrameBytes(shape_, DType::kF32))}, at::kByte);
  int64_t bytes = 0;
  if (AllFinite(own)) {
    const uint64_t noise =
        FoldSeed({place_.seed, static_cast<uint64_t>(step), static_cast<uint64_t>(place_.stage),
                  kOuterDirection, 0, static_cast<uint64_t>(place_.group)});
    absl::StatusOr<size_t> encoded =
        codec_->Encode(WholeOf(own), noise, state_.get(), BytesOf(frame));
    if (!encoded.ok()) return encoded.status();
    bytes = static_cast<int64_t>(*encoded);
  }
  own_frame_ = frame.narrow(0, 0, bytes);
  return absl::OkStatus();
}

void GroupAverage::Send() {
  const size_t count = members_.size();
  frames_.assign(count, at::Tensor());
  lengths_.assign(count, at::Tensor());
  received_.assign(count, WorkPtr());
  sent_.clear();
  bytes_sent_ = 0;
  const int64_t bytes = own_frame_.numel();
  const at::Tensor length = at::full({1}, bytes, at::kLong);
  for (size_t i = 0; i < count; ++i) {
    if (members_[i] == place_.group) {
      frames_[i] = own_frame_;
      continue;
    }
    const int peer = static_cast<int>(i);
    lengths_[i] = at::empty({1}, at::kLong);
    received_[i] = ReceiveTensor(*place_.peers, lengths_[i], peer);
    sent_.push_back(SendTensor(*place_.peers, length, peer));
    if (bytes > 0) sent_.push_back(SendTensor(*place_.peers, own_frame_, peer));
    bytes_sent_ += bytes;
  }
}

absl::Status GroupAverage::Begin(int64_t step, const at::Tensor& own) {
  if (absl::Status status = Encode(step, own); !status.ok()) return status;
  Send();
  return absl::OkStatus();
}

absl::Status GroupAverage::Receive() {
  const auto limit = static_cast<int64_t>(codec_->MaxFrameBytes(shape_, DType::kF32));
  for (size_t i = 0; i < members_.size(); ++i) {
    if (members_[i] == place_.group) continue;
    WaitAndReset(&received_[i]);
    const int64_t bytes = lengths_[i].item<int64_t>();
    if (bytes < 0 || bytes > limit) {
      return OfGroup(members_[i],
                     absl::DataLossError(absl::StrCat("it has ", bytes, " bytes, at most ", limit,
                                                      " are possible")));
    }
    frames_[i] = at::empty({bytes}, at::kByte);
    if (bytes > 0) {
      received_[i] = ReceiveTensor(*place_.peers, frames_[i], static_cast<int>(i));
    }
  }
  for (WorkPtr& work : received_) WaitAndReset(&work);
  for (WorkPtr& work : sent_) WaitAndReset(&work);
  sent_.clear();
  return absl::OkStatus();
}

absl::Status GroupAverage::Sum(const at::Tensor& scratch, const std::vector<bool>& left_out,
                               std::vector<double>* squared_norms) {
  average_.zero_();
  for (size_t i = 0; i < members_.size(); ++i) {
    if (left_out[i]) continue;
    const std::span<const std::byte> frame = BytesOf(frames_[i]);
    if (frame.empty()) {
      average_.fill_(std::numeric_limits<double>::quiet_NaN());
      if (squared_norms != nullptr) (*squared_norms)[i] = std::numeric_limits<double>::infinity();
      continue;
    }
    // Decoding needs no state: what error feedback keeps belongs to the sender.
    absl::Status status = DecodeFrame(frame, WholeOf(scratch));
    if (!status.ok()) return OfGroup(members_[i], status);
    if (squared_norms != nullptr) (*squared_norms)[i] = SquaredNorm(scratch);
    average_.add_(scratch);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<double>> GroupAverage::SquaredNorms(const at::Tensor& scratch) {
  std::vector<double> norms(members_.size(), 0);
  absl::Status status = Sum(scratch, std::vector<bool>(members_.size(), false), &norms);
  if (!status.ok()) return status;
  return norms;
}

absl::StatusOr<at::Tensor> GroupAverage::Average(const at::Tensor& scratch,
                                                 const std::vector<bool>& left_out) {
  const auto out = std::count(left_out.begin(), left_out.end(), true);
  if (out > 0) {
    if (absl::Status status = Sum(scratch, left_out, nullptr); !status.ok()) return status;
  }
  average_.div_(static_cast<double>(static_cast<int64_t>(members_.size()) - out));
  return average_;
}

absl::StatusOr<at::Tensor> GroupAverage::Finish(const at::Tensor& scratch) {
  if (absl::Status status = Receive(); !status.ok()) return status;
  const std::vector<bool> nobody(members_.size(), false);
  if (absl::Status status = Sum(scratch, nobody, nullptr); !status.ok()) return status;
  return Average(scratch, nobody);
}

}  // namespace longhaul
