#include "pp_group/outer/group_average.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "compressors/catalog.h"
#include "compressors/numbers/noise.h"
#include "compressors/saved_state.h"
#include "pp_group/finite.h"

namespace longhaul {
namespace {

// The third word of FoldSeed: directions 0 and 1 are the pipeline's.
constexpr uint64_t kOuterDirection = 2;

Tensor WholeOf(const at::Tensor& x) {
  return {x.data_ptr<float>(), DType::kF32, {1, static_cast<uint64_t>(x.numel())}};
}

at::Tensor Of(const FramePart& part, const at::Tensor& x) {
  return x.narrow(0, part.begin, part.elements());
}

Shape ShapeOf(const FramePart& part) { return {1, static_cast<uint64_t>(part.elements())}; }

// Where each part's frame begins in a message, and where the last one ends. `lengths` [parts].
std::vector<int64_t> FrameBegins(std::span<const int64_t> lengths) {
  std::vector<int64_t> begins = {0};
  for (size_t i = 0; i < lengths.size(); ++i) {
    const int64_t end = begins[i] + lengths[i];
    const bool last = i + 1 == lengths.size();
    begins.push_back(last ? end : (end + kFrameAlignment - 1) / kFrameAlignment * kFrameAlignment);
  }
  return begins;
}

std::span<const int64_t> LengthsOf(const at::Tensor& x) {
  return {x.const_data_ptr<int64_t>(), static_cast<size_t>(x.numel())};
}

std::span<std::byte> BytesOf(const at::Tensor& x) {
  return {reinterpret_cast<std::byte*>(x.data_ptr<uint8_t>()), static_cast<size_t>(x.numel())};
}

// Of every eighth value each, then of the eight sums: in one order, so that it has equal bits on every
// host.
double Dot(const at::Tensor& x, const at::Tensor& y) {
  constexpr int64_t kLanes = 8;
  std::array<double, kLanes> sums = {};
  const float *a = x.const_data_ptr<float>(), *b = y.const_data_ptr<float>();
  const int64_t whole = x.numel() / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += static_cast<double>(a[i + lane]) * b[i + lane];
    }
  }
  for (int64_t i = whole; i < x.numel(); ++i) sums[i - whole] += static_cast<double>(a[i]) * b[i];
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}
double SquaredNorm(const at::Tensor& x) { return Dot(x, x); }

bool SameBytes(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() != b.defined()) return false;
  if (!a.defined() || a.is_same(b)) return true;
  return a.nbytes() == b.nbytes() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
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
  std::unique_ptr<GroupAverage> average(new GroupAverage);
  std::vector<std::string> names;
  for (const CodecUntil& earlier : place.earlier) names.push_back(earlier.codec);
  names.push_back(codec);
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(std::shared_ptr<const Codec> made, MakeCodec(name));
    RETURN_IF_ERROR(CheckOuterCodec(*made));
    average->codecs_.push_back(std::move(made));
  }
  std::vector<int> all(static_cast<size_t>(place.groups));
  std::iota(all.begin(), all.end(), 0);
  if (place.parts.empty() && elements > 0) place.parts = {{0, elements, false, false}};
  average->place_ = std::move(place);
  average->SetMembers(std::move(all), average->place_.peers);
  average->codec_ = average->codecs_.front();
  average->ForgetCodecState();
  average->average_ = at::empty({elements}, at::kFloat);
  return average;
}

GroupAverage::~GroupAverage() { ForgetSum(); }

void GroupAverage::ForgetSum() {
  if (place_.sums == nullptr) return;
  const auto own = place_.sums->by_fragment_.find(place_.fragment);
  if (own != place_.sums->by_fragment_.end() && own->second.of == this) own->second = {};
}

// With it comes, from a checkpoint, what average() is.
void GroupAverage::SetCodecState(CodecStates states) {
  states_ = std::move(states);
  ForgetSum();
}

void GroupAverage::ForgetCodecState() {
  states_.clear();
  for (const FramePart& part : place_.parts) {
    states_.push_back({codec_, codec_->NewState(ShapeOf(part))});
  }
}

// A codec that remembers as much as the one before it takes that over: it is of the same kind.
void GroupAverage::TakeCodecOf(int64_t step) {
  size_t i = 0;
  while (i < place_.earlier.size() && step > place_.earlier[i].step) ++i;
  codec_ = codecs_[i];
  for (size_t p = 0; p < states_.size(); ++p) {
    PartState& own = states_[p];
    if (own.codec == codec_) continue;
    const PartState before =
        std::exchange(own, {codec_, codec_->NewState(ShapeOf(place_.parts[p]))});
    if (before.state == nullptr || own.state == nullptr) continue;
    std::vector<std::byte> saved(before.state->bytes());
    before.state->Save(saved);
    if (!own.state->Load(saved).ok()) own.state->Reset();
  }
}

std::vector<std::byte> GroupAverage::SaveCodecState() const {
  if (states_.empty() || states_.front().state == nullptr) return {};
  if (states_.size() == 1) return SaveState(*states_.front().codec, *states_.front().state);
  std::vector<std::byte> all;
  for (const PartState& own : states_) {
    const std::vector<std::byte> saved = SaveState(*own.codec, *own.state);
    const auto length =
        std::bit_cast<std::array<std::byte, 8>>(static_cast<uint64_t>(saved.size()));
    all.insert(all.end(), length.begin(), length.end());
    all.insert(all.end(), saved.begin(), saved.end());
  }
  return all;
}

absl::StatusOr<GroupAverage::PartState> GroupAverage::ParseState(
    const FramePart& part, std::span<const std::byte> saved) const {
  ASSIGN_OR_RETURN(const SavedState parsed, ParseSavedState(saved));
  if (!(parsed.shape == ShapeOf(part))) {
    return absl::InvalidArgumentError(absl::StrCat("saved state of ", parsed.shape.elements(),
                                                   " elements, this stage has ", part.elements()));
  }
  const auto of = std::find_if(codecs_.begin(), codecs_.end(),
                               [&](const auto& codec) { return codec->name() == parsed.codec; });
  PartState own{of == codecs_.end() ? codecs_.back() : *of, nullptr};
  ASSIGN_OR_RETURN(auto state, RestoreState(*own.codec, parsed));
  own.state = std::move(state);
  return own;
}

absl::StatusOr<GroupAverage::CodecStates> GroupAverage::ParseCodecState(
    std::span<const std::byte> saved) const {
  CodecStates states(place_.parts.size());
  const auto plain = std::find_if(codecs_.begin(), codecs_.end(), [&](const auto& codec) {
    return place_.parts.empty() || codec->NewState(ShapeOf(place_.parts.front())) == nullptr;
  });
  if (saved.empty() && plain != codecs_.end()) {
    for (PartState& own : states) own.codec = *plain;
    return states;
  }
  for (size_t i = 0; i < states.size(); ++i) {
    std::span<const std::byte> own = saved;
    if (states.size() > 1) {
      uint64_t length = 0;
      if (saved.size() >= sizeof length) {
        std::memcpy(&length, saved.data(), sizeof length);
        saved = saved.subspan(sizeof length);
      }
      if (length == 0 || length > saved.size()) {
        return absl::DataLossError(absl::StrCat("saved states end before part ", i + 1, " of ",
                                                states.size(), " is whole"));
      }
      own = saved.first(length);
      saved = saved.subspan(length);
    }
    ASSIGN_OR_RETURN(auto state, ParseState(place_.parts[i], own));
    states[i] = std::move(state);
  }
  if (states.size() > 1 && !saved.empty()) {
    return absl::DataLossError(absl::StrCat("saved states of more than ", states.size(), " parts"));
  }
  return states;
}

void GroupAverage::SetMembers(std::vector<int> members, c10::intrusive_ptr<c10d::Backend> peers) {
  peer_ranks_.resize(members.size());
  std::iota(peer_ranks_.begin(), peer_ranks_.end(), 0);
  members_ = std::move(members);
  place_.peers = std::move(peers);
}

void GroupAverage::Meet(std::vector<int> members) {
  peer_ranks_ = members;
  members_ = std::move(members);
}

absl::Status GroupAverage::Encode(int64_t step, const at::Tensor& own) {
  TakeCodecOf(step);
  const std::vector<FramePart>& parts = place_.parts;
  std::vector<int64_t> most;
  for (const FramePart& part : parts) {
    most.push_back(static_cast<int64_t>(codec_->MaxFrameBytes(ShapeOf(part), DType::kF32)));
  }
  const at::Tensor frame = at::empty({FrameBegins(most).back()}, at::kByte);
  own_lengths_ = at::zeros({static_cast<int64_t>(parts.size())}, at::kLong);
  auto* const lengths = own_lengths_.data_ptr<int64_t>();
  const int noise_group = place_.noise_group < 0 ? place_.group : place_.noise_group;
  int64_t end = 0;  // of the last frame; what follows it is zero
  for (size_t i = 0; i < parts.size(); ++i) {
    const at::Tensor values = Of(parts[i], own);
    if (!AllFinite(values)) continue;
    const int stage = parts[i].tied ? 0 : place_.stage;
    const uint64_t noise =
        FoldSeed({place_.seed, static_cast<uint64_t>(step), static_cast<uint64_t>(stage),
                  kOuterDirection + (static_cast<uint64_t>(place_.fragment) << 8), parts[i].tied,
                  static_cast<uint64_t>(noise_group)});
    const int64_t begin = FrameBegins(LengthsOf(own_lengths_))[i];
    frame.narrow(0, end, begin - end).zero_();
    ASSIGN_OR_RETURN(size_t encoded,
                     codec_->Encode(WholeOf(values), noise, states_[i].state.get(),
                                    BytesOf(frame).subspan(static_cast<size_t>(begin))));
    lengths[i] = static_cast<int64_t>(encoded);
    end = begin + lengths[i];
  }
  const int64_t all = FrameBegins(LengthsOf(own_lengths_)).back();
  frame.narrow(0, end, all - end).zero_();
  own_frame_ = frame.narrow(0, 0, all);
  return absl::OkStatus();
}

void GroupAverage::Send() {
  const size_t count = members_.size();
  frames_.assign(count, at::Tensor());
  lengths_.assign(count, at::Tensor());
  received_.assign(count, WorkPtr());
  frame_posted_.assign(count, false);
  sent_.clear();
  bytes_sent_ = 0;
  if (place_.parts.empty()) frame_posted_.assign(count, true);  // it has nothing of the fragment
  const int64_t bytes = own_frame_.numel();
  for (size_t i = 0; i < count; ++i) {
    if (members_[i] == place_.group) {
      frames_[i] = own_frame_;
      lengths_[i] = own_lengths_;
      continue;
    }
    if (place_.parts.empty()) {
      lengths_[i] = own_lengths_;
      continue;
    }
    const int peer = peer_ranks_[i];
    lengths_[i] = at::empty_like(own_lengths_);
    received_[i] = ReceiveTensor(*place_.peers, lengths_[i], peer, tag());
    sent_.push_back(SendTensor(*place_.peers, own_lengths_, peer, tag()));
    if (bytes > 0) sent_.push_back(SendTensor(*place_.peers, own_frame_, peer, tag()));
    bytes_sent_ += bytes;
  }
}

absl::Status GroupAverage::Begin(int64_t step, const at::Tensor& own) {
  RETURN_IF_ERROR(Encode(step, own));
  Send();
  return absl::OkStatus();
}

// Its lengths have come: its frame's receive is posted.
absl::Status GroupAverage::ReceiveFrame(size_t member) {
  frame_posted_[member] = true;
  WaitAndReset(&received_[member]);
  const std::span<const int64_t> lengths = LengthsOf(lengths_[member]);
  for (size_t p = 0; p < lengths.size(); ++p) {
    const auto limit =
        static_cast<int64_t>(codec_->MaxFrameBytes(ShapeOf(place_.parts[p]), DType::kF32));
    if (lengths[p] >= 0 && lengths[p] <= limit) continue;
    return OfGroup(members_[member],
                   absl::DataLossError(absl::StrCat("it has ", lengths[p], " bytes, at most ",
                                                    limit, " are possible")));
  }
  const int64_t bytes = FrameBegins(lengths).back();
  frames_[member] = at::empty({bytes}, at::kByte);
  if (bytes > 0) {
    received_[member] = ReceiveTensor(*place_.peers, frames_[member], peer_ranks_[member], tag());
  }
  return absl::OkStatus();
}

absl::Status GroupAverage::Advance() {
  for (size_t i = 0; i < members_.size(); ++i) {
    if (members_[i] == place_.group || frame_posted_[i] || !received_[i]->isCompleted()) continue;
    RETURN_IF_ERROR(ReceiveFrame(i));
  }
  return absl::OkStatus();
}

absl::Status GroupAverage::Receive() {
  for (size_t i = 0; i < members_.size(); ++i) {
    if (members_[i] == place_.group || frame_posted_[i]) continue;
    RETURN_IF_ERROR(ReceiveFrame(i));
  }
  for (WorkPtr& work : received_) WaitAndReset(&work);
  for (WorkPtr& work : sent_) WaitAndReset(&work);
  sent_.clear();
  return absl::OkStatus();
}

// `squared_norm`: what it adds to that, of the matrix of a tied head in the first stage alone; may be
// null.
absl::Status GroupAverage::AddMember(size_t member, const at::Tensor& scratch,
                                     double* squared_norm) {
  const std::span<const int64_t> lengths = LengthsOf(lengths_[member]);
  const std::vector<int64_t> begins = FrameBegins(lengths);
  for (size_t p = 0; p < place_.parts.size(); ++p) {
    const FramePart& part = place_.parts[p];
    const at::Tensor sum = Of(part, average_), decoded = Of(part, scratch);
    if (lengths[p] == 0) {
      sum.fill_(std::numeric_limits<double>::quiet_NaN());
      if (squared_norm != nullptr) *squared_norm = std::numeric_limits<double>::infinity();
      continue;
    }
    const auto frame =
        BytesOf(frames_[member])
            .subspan(static_cast<size_t>(begins[p]), static_cast<size_t>(lengths[p]));
    // Decoding needs no state: what error feedback keeps belongs to the sender.
    absl::Status status = DecodeFrame(frame, WholeOf(decoded));
    if (!status.ok()) return OfGroup(members_[member], status);
    ++frames_decoded_;
    if (squared_norm != nullptr && !part.copy) *squared_norm += SquaredNorm(decoded);
    sum.add_(decoded);
    if (place_.over_senders) Of(part, senders_).add_(decoded.ne(0));
  }
  return absl::OkStatus();
}

absl::Status GroupAverage::Sum(const at::Tensor& scratch, const std::vector<bool>& left_out,
                               std::vector<double>* squared_norms) {
  std::vector<double> norms(members_.size(), 0);
  if (!TakeSum(left_out, &norms)) {
    divided_ = false;
    average_.zero_();
    if (place_.over_senders) senders_ = at::zeros_like(average_);
    for (size_t i = 0; i < members_.size(); ++i) {
      if (left_out[i]) continue;
      RETURN_IF_ERROR(AddMember(i, scratch, &norms[i]));
    }
    if (place_.sums != nullptr) {
      place_.sums->by_fragment_[place_.fragment] = {this,    members_, left_out,
                                                    frames_, lengths_, norms};
    }
  }
  if (squared_norms != nullptr) *squared_norms = std::move(norms);
  return absl::OkStatus();
}

bool GroupAverage::TakeSum(const std::vector<bool>& left_out, std::vector<double>* squared_norms) {
  if (place_.sums == nullptr) return false;
  ForgetSum();  // it is about to be another
  const SharedSums::Sum& there = place_.sums->by_fragment_[place_.fragment];
  if (there.of == nullptr || there.members != members_ || there.left_out != left_out) return false;
  for (size_t i = 0; i < members_.size(); ++i) {
    if (!SameBytes(there.lengths[i], lengths_[i]) || !SameBytes(there.frames[i], frames_[i])) {
      return false;
    }
  }
  average_.copy_(there.of->average_);
  senders_ = there.of->senders_;
  divided_ = there.of->divided_;
  *squared_norms = there.squared_norms;
  return true;
}

absl::StatusOr<std::vector<double>> GroupAverage::SquaredNorms(const at::Tensor& scratch) {
  std::vector<double> norms(members_.size(), 0);
  RETURN_IF_ERROR(Sum(scratch, std::vector<bool>(members_.size(), false), &norms));
  return norms;
}

absl::StatusOr<at::Tensor> GroupAverage::Average(const at::Tensor& scratch,
                                                 const std::vector<bool>& left_out) {
  const auto out = std::count(left_out.begin(), left_out.end(), true);
  if (out > 0) {
    RETURN_IF_ERROR(Sum(scratch, left_out, nullptr));
  }
  Divide(static_cast<int64_t>(members_.size()) - out);
  return average_;
}

GroupAverage::Turn GroupAverage::TurnOfAverage() {
  Turn turn;
  const bool first = !last_.defined();
  if (first) last_ = at::empty_like(average_);
  double last_squared = 0, dot = 0;
  for (const FramePart& part : place_.parts) {
    const at::Tensor average = Of(part, average_), last = Of(part, last_);
    if (!part.copy && !first) {
      last_squared += SquaredNorm(last);
      dot += Dot(average, last);
    }
    if (!part.copy) turn.squared_norm += SquaredNorm(average);
    last.copy_(average);
  }
  if (first) return turn;
  turn.last_squared_norm = last_squared;
  turn.dot = dot;
  return turn;
}

void GroupAverage::Divide(int64_t members) {
  if (std::exchange(divided_, true)) return;
  if (place_.over_senders && members > 0) {
    average_.div_(senders_.clamp_min(1));
  } else {
    average_.div_(static_cast<double>(members));
  }
}

absl::StatusOr<at::Tensor> GroupAverage::Finish(const at::Tensor& scratch) {
  RETURN_IF_ERROR(Receive());
  const std::vector<bool> nobody(members_.size(), false);
  RETURN_IF_ERROR(Sum(scratch, nobody, nullptr));
  return Average(scratch, nobody);
}

}  // namespace longhaul
