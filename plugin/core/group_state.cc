// Group::SaveState and LoadState. Layout, little-endian: magic, rank, size; number of send
// channels, each rank, tag, next sequence, number of slots, each with rows, cols (0, 0: none),
// bytes, residual; number of receive channels, each rank, tag, next sequence, number of slots, each
// with bytes (0: none), state; CRC32C of all before.
#include <cstring>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "compressors/crc32c.h"
#include "plugin/core/group_core.h"

namespace longhaul {
namespace {

constexpr uint32_t kMagic = 0x3253484C;  // "LHS2"

uint32_t Checksum(std::string_view text) {
  return Crc32c(std::as_bytes(std::span(text.data(), text.size())));
}

class Writer {
 public:
  template <typename T>
  void Put(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void PutState(const auto& state) {
    Put<uint64_t>(state.bytes());
    const size_t at = text_.size();
    text_.resize(at + state.bytes());
    state.Save(std::as_writable_bytes(std::span(text_.data() + at, state.bytes())));
  }
  std::string Seal() {
    Put(Checksum(text_));
    return std::move(text_);
  }

 private:
  std::string text_;
};

// Every read is checked; after the first that fails all give zero.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}
  template <typename T>
  T Take() {
    T value = {};
    const std::string_view bytes = TakeBytes(sizeof(value));
    if (ok_) std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  }
  std::string_view TakeBytes(uint64_t size) {
    ok_ = ok_ && size <= text_.size();
    if (!ok_) return {};
    const std::string_view bytes = text_.substr(0, size);
    text_.remove_prefix(size);
    return bytes;
  }
  bool ok() const { return ok_; }
  bool empty() const { return text_.empty(); }

 private:
  std::string_view text_;
  bool ok_ = true;
};

void PutChannel(const ChannelKey& key, const Sender::Channel& channel, Writer& out) {
  out.Put<int32_t>(key.rank);
  out.Put<int32_t>(key.tag);
  out.Put<uint64_t>(channel.next_sequence);
  out.Put(static_cast<uint32_t>(channel.residuals.size()));
  for (const std::unique_ptr<CodecState>& residual : channel.residuals) {
    const Shape shape = residual == nullptr ? Shape{} : residual->shape();
    out.Put<uint64_t>(shape.rows);
    out.Put<uint64_t>(shape.cols);
    if (residual != nullptr) out.PutState(*residual);
  }
}

// The rest of a channel after its rank and tag. False: not what PutChannel wrote for this codec.
bool TakeChannel(Reader& in, const Codec* codec, Sender::Channel& channel) {
  channel.next_sequence = in.Take<uint64_t>();
  for (auto slots = in.Take<uint32_t>(); slots > 0 && in.ok(); --slots) {
    std::unique_ptr<CodecState>& residual = channel.residuals.emplace_back();
    Shape shape{.rows = in.Take<uint64_t>(), .cols = 0};
    shape.cols = in.Take<uint64_t>();
    if (shape == Shape{}) continue;
    const std::string_view bytes = in.TakeBytes(in.Take<uint64_t>());
    uint64_t elements = 0;
    const bool possible = !__builtin_mul_overflow(shape.rows, shape.cols, &elements) &&
                          elements <= bytes.size();  // before memory is taken for it
    if (codec == nullptr || !in.ok() || !possible) return false;
    residual = codec->NewState(shape);
    if (residual == nullptr) return false;
    if (!residual->Load(std::as_bytes(std::span(bytes.data(), bytes.size()))).ok()) return false;
  }
  return in.ok();
}

// False: not what WriteState wrote.
bool TakeReceivers(Reader& in, std::vector<FrameReceiver>& receivers) {
  for (auto slots = in.Take<uint32_t>(); slots > 0 && in.ok(); --slots) {
    const std::string_view bytes = in.TakeBytes(in.Take<uint64_t>());
    if (!in.ok()) return false;
    const auto saved = std::as_bytes(std::span(bytes.data(), bytes.size()));
    if (!receivers.emplace_back().Load(saved).ok()) return false;
  }
  return in.ok();
}

}  // namespace

absl::StatusOr<std::string> GroupCore::SaveState() {
  auto saved = std::make_shared<absl::StatusOr<std::string>>();
  const absl::Status status = RunAndWait([this, saved] {
    *saved = WriteState();
    return saved->status();
  });
  if (!status.ok()) return status;
  return *std::move(*saved);
}

absl::StatusOr<std::string> GroupCore::WriteState() const {
  if (!matcher_.quiet() || sender_.outstanding() > 0 || !collectives_.quiet()) {
    return absl::FailedPreconditionError(
        fmt::format("group '{}': save with operations outstanding", options_.name));
  }
  Writer out;
  out.Put(kMagic);
  out.Put<int32_t>(options_.rank);
  out.Put<int32_t>(options_.size);
  const auto channels = sender_.point_to_point();
  out.Put(static_cast<uint32_t>(channels.size()));
  for (const auto& [key, channel] : channels) PutChannel(key, *channel, out);
  const auto sequences = matcher_.sequences();
  out.Put(static_cast<uint32_t>(sequences.size()));
  for (const auto& [key, next] : sequences) {
    out.Put<int32_t>(key.rank);
    out.Put<int32_t>(key.tag);
    out.Put<uint64_t>(next);
    const std::vector<FrameReceiver>& receivers = matcher_.receivers(key);
    out.Put(static_cast<uint32_t>(receivers.size()));
    for (const FrameReceiver& receiver : receivers) out.PutState(receiver);
  }
  return out.Seal();
}

absl::Status GroupCore::LoadState(std::string_view state) {
  const auto bad = [this](std::string_view what) {
    return absl::DataLossError(fmt::format("group '{}': saved state: {}", options_.name, what));
  };
  if (state.size() < sizeof(uint32_t)) return bad("too short");
  Reader tail(state.substr(state.size() - sizeof(uint32_t)));
  state.remove_suffix(sizeof(uint32_t));
  if (tail.Take<uint32_t>() != Checksum(state)) return bad("checksum");
  return RunAndWait([this, text = std::string(state)] { return ReadState(text); });
}

absl::Status GroupCore::ReadState(std::string_view checked) {
  const auto bad = [this](std::string_view what) {
    return absl::DataLossError(fmt::format("group '{}': saved state: {}", options_.name, what));
  };
  if (!sender_.point_to_point().empty() || !matcher_.sequences().empty()) {
    return absl::FailedPreconditionError(
        fmt::format("group '{}': load after the first operation", options_.name));
  }
  Reader in(checked);
  if (in.Take<uint32_t>() != kMagic) return bad("magic");
  const auto rank = in.Take<int32_t>(), size = in.Take<int32_t>();
  if (rank != options_.rank || size != options_.size) {
    return absl::InvalidArgumentError(
        fmt::format("group '{}': the saved state is of rank {} of {}, this is rank {} of {}",
                    options_.name, rank, size, options_.rank, options_.size));
  }
  for (auto left = in.Take<uint32_t>(); left > 0 && in.ok(); --left) {
    const auto peer = in.Take<int32_t>(), tag = in.Take<int32_t>();
    if (!CheckPeer(peer, "channel to").ok()) return bad("a channel to no rank");
    Sender::Channel& channel = sender_.ChannelOf({peer, ChannelSpace::kPointToPoint, tag});
    if (!TakeChannel(in, context_.coding.Named(peer, tag), channel)) {
      return bad(
          fmt::format("residuals for rank {}, tag {} that its codec did not write", peer, tag));
    }
  }
  for (auto left = in.Take<uint32_t>(); left > 0 && in.ok(); --left) {
    const auto peer = in.Take<int32_t>(), tag = in.Take<int32_t>();
    if (!CheckPeer(peer, "channel from").ok()) return bad("a channel from no rank");
    const auto next = in.Take<uint64_t>();
    std::vector<FrameReceiver> receivers;
    if (!TakeReceivers(in, receivers)) {
      return bad(fmt::format("states of rank {}, tag {} that no receiver wrote", peer, tag));
    }
    matcher_.Restore({peer, ChannelSpace::kPointToPoint, tag}, next, std::move(receivers));
  }
  return in.ok() && in.empty() ? absl::OkStatus() : bad("length");
}

}  // namespace longhaul
