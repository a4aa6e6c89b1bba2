// Group::SaveState, CheckState and LoadState. Layout, little-endian: magic, rank, size; what keys
// the bytes on the wire (text); number of codecs that are in use in place of the policy's, each with
// rank, kind of tensor and name (text); number of ranks, for each the frames encoded for it; number of send
// channels, each rank, tag, next sequence, number of slots, each with bytes (0: none) and a saved
// state (saved_state.h); number of receive channels, each rank, tag, next sequence, number of
// slots, each with bytes (0: none) and a receiver's state; CRC32C of all before. Text is its length
// and its bytes.
#include "plugin/core/group_state.h"

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "compressors/numbers/crc32c.h"
#include "compressors/saved_state.h"
#include "plugin/core/group_core.h"

namespace longhaul {
namespace {

constexpr uint32_t kMagic = 0x3453484C;  // "LHS4"

uint32_t Checksum(std::string_view text) {
  return Crc32c(std::as_bytes(std::span(text.data(), text.size())));
}

std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Two groups for which this is equal make equal bytes of equal tensors, given equal states.
std::string KeyOf(const GroupOptions& options) {
  std::string text =
      fmt::format("forward={} backward={}", options.codecs.forward, options.codecs.backward);
  for (const auto& [boundary, pair] : options.codecs.by_boundary) {
    text += fmt::format(" boundary{}={}/{}", boundary, pair.forward, pair.backward);
  }
  for (const auto& [tag, codec] : options.codecs.by_tag) {
    text += fmt::format(" tag{}={}", tag, codec);
  }
  text += ToString(options.codecs.collectives);
  return text + fmt::format(" min_elements={} ef_slots={} seed={:#x}", options.codecs.min_elements,
                            options.ef_slots, options.seed);
}

class Writer {
 public:
  template <typename T>
  void Put(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void PutText(std::string_view text) {
    Put<uint64_t>(text.size());
    text_.append(text);
  }
  void PutState(std::span<const std::byte> state) {
    PutText({reinterpret_cast<const char*>(state.data()), state.size()});
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
  std::string_view TakeText() { return TakeBytes(Take<uint64_t>()); }
  bool ok() const { return ok_; }
  bool empty() const { return text_.empty(); }

 private:
  std::string_view TakeBytes(uint64_t size) {
    ok_ = ok_ && size <= text_.size();
    if (!ok_) return {};
    const std::string_view bytes = text_.substr(0, size);
    text_.remove_prefix(size);
    return bytes;
  }

  std::string_view text_;
  bool ok_ = true;
};

void PutChannelHead(const ChannelKey& key, uint64_t next_sequence, size_t slots, Writer& out) {
  out.Put<int32_t>(key.rank);
  out.Put<int32_t>(key.tag);
  out.Put<uint64_t>(next_sequence);
  out.Put(static_cast<uint32_t>(slots));
}

absl::Status TakeSlots(Reader& in, int slots,
                       absl::FunctionRef<absl::Status(std::string_view)> take) {
  const auto count = in.Take<uint32_t>();
  if (count > static_cast<uint32_t>(slots)) {
    return absl::DataLossError(fmt::format("{} slots, at most {} are possible", count, slots));
  }
  for (uint32_t i = 0; i < count && in.ok(); ++i) {
    RETURN_IF_ERROR(take(in.TakeText()));
  }
  return in.ok() ? absl::OkStatus() : absl::DataLossError("truncated");
}

absl::Status TakeSender(Reader& in, int slots, const Codec* codec, SendChannel& channel) {
  channel.next_sequence = in.Take<uint64_t>();
  return TakeSlots(in, slots, [&](std::string_view bytes) -> absl::Status {
    std::unique_ptr<CodecState>& state = channel.residuals.emplace_back();
    if (bytes.empty()) return absl::OkStatus();
    if (codec == nullptr) return absl::DataLossError("a codec's state for a channel without codec");
    ASSIGN_OR_RETURN(const SavedState saved, ParseSavedState(BytesOf(bytes)));
    absl::StatusOr<std::unique_ptr<CodecState>> restored = RestoreState(*codec, saved);
    if (restored.ok()) state = *std::move(restored);
    return restored.status();
  });
}

absl::Status TakeReceiver(Reader& in, int slots, GroupState::Receiver& receiver) {
  receiver.next_sequence = in.Take<uint64_t>();
  return TakeSlots(in, slots, [&](std::string_view bytes) {
    return receiver.slots.emplace_back().Load(BytesOf(bytes));
  });
}

// The three lists behind the head.
absl::Status TakeLists(Reader& in, const GroupOptions& options, const CodingTable& coding,
                       GroupState& state) {
  const auto peer_of = [&](int rank) {
    return rank >= 0 && rank < options.size && rank != options.rank;
  };
  const auto at = [](const absl::Status& s, std::string_view way, int rank, int tag) {
    return absl::Status(s.code(), fmt::format("channel {} rank {}, tag {}: {}", way, rank, tag,
                                              std::string(s.message())));
  };
  for (auto left = in.Take<uint32_t>(); left > 0 && in.ok(); --left) {
    const auto rank = in.Take<int32_t>();
    const auto kind = static_cast<TensorKind>(in.Take<uint8_t>() & 1);
    if (!peer_of(rank)) return absl::DataLossError(fmt::format("a codec for rank {}", rank));
    state.used[{rank, kind}] = in.TakeText();
  }
  const auto ranks = in.Take<uint32_t>();
  if (ranks > static_cast<uint32_t>(options.size)) return absl::DataLossError("too many ranks");
  for (uint32_t i = 0; i < ranks; ++i) state.encoded_frames.push_back(in.Take<int64_t>());
  for (auto left = in.Take<uint32_t>(); left > 0 && in.ok(); --left) {
    const auto rank = in.Take<int32_t>(), tag = in.Take<int32_t>();
    if (!peer_of(rank)) return absl::DataLossError(fmt::format("a channel to rank {}", rank));
    SendChannel& channel = state.senders[{rank, ChannelSpace::kPointToPoint, tag}];
    const absl::Status s = TakeSender(in, options.ef_slots, coding.Named(rank, tag), channel);
    if (!s.ok()) return at(s, "to", rank, tag);
  }
  for (auto left = in.Take<uint32_t>(); left > 0 && in.ok(); --left) {
    const auto rank = in.Take<int32_t>(), tag = in.Take<int32_t>();
    if (!peer_of(rank)) return absl::DataLossError(fmt::format("a channel from rank {}", rank));
    GroupState::Receiver& receiver = state.receivers[{rank, ChannelSpace::kPointToPoint, tag}];
    const absl::Status s = TakeReceiver(in, options.ef_slots, receiver);
    if (!s.ok()) return at(s, "from", rank, tag);
  }
  return in.ok() && in.empty() ? absl::OkStatus() : absl::DataLossError("truncated or too long");
}

absl::StatusOr<GroupState> Parse(std::string_view saved, const GroupOptions& options,
                                 const CodingTable& coding) {
  if (saved.size() < sizeof(uint32_t)) return absl::DataLossError("truncated");
  Reader tail(saved.substr(saved.size() - sizeof(uint32_t)));
  saved.remove_suffix(sizeof(uint32_t));
  if (tail.Take<uint32_t>() != Checksum(saved)) {
    return absl::DataLossError("truncated or corrupt (checksum)");
  }
  Reader in(saved);
  if (in.Take<uint32_t>() != kMagic) return absl::DataLossError("not a group's state");
  const auto rank = in.Take<int32_t>(), size = in.Take<int32_t>();
  if (rank != options.rank || size != options.size) {
    return absl::InvalidArgumentError(fmt::format("of rank {} of {}, this is rank {} of {}", rank,
                                                  size, options.rank, options.size));
  }
  const std::string key(in.TakeText());
  if (key != KeyOf(options)) {
    return absl::InvalidArgumentError(
        fmt::format("of a group with {}; this one has {}", key, KeyOf(options)));
  }
  GroupState state;
  RETURN_IF_ERROR(TakeLists(in, options, coding, state));
  return state;
}

}  // namespace

absl::StatusOr<GroupState> ParseGroupState(std::string_view saved, const GroupOptions& options,
                                           const CodingTable& coding) {
  absl::StatusOr<GroupState> state = Parse(saved, options, coding);
  if (state.ok()) return state;
  return absl::Status(state.status().code(),
                      fmt::format("group '{}': saved state: {}", options.name,
                                  std::string(state.status().message())));
}

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
  out.PutText(KeyOf(options_));
  const CodingTable::Used used = context_.coding.used();
  out.Put(static_cast<uint32_t>(used.size()));
  for (const auto& [key, codec] : used) {
    out.Put<int32_t>(key.first);
    out.Put(static_cast<uint8_t>(key.second));
    out.PutText(codec);
  }
  out.Put(static_cast<uint32_t>(sender_.encoder().encoded_frames().size()));
  for (const int64_t frames : sender_.encoder().encoded_frames()) out.Put(frames);
  const auto channels = sender_.point_to_point();
  out.Put(static_cast<uint32_t>(channels.size()));
  for (const auto& [key, channel] : channels) {
    PutChannelHead(key, channel->next_sequence, channel->residuals.size(), out);
    const Codec* codec = context_.coding.Named(key.rank, key.tag);
    for (const std::unique_ptr<CodecState>& state : channel->residuals) {
      if (state == nullptr) {
        out.PutState({});
      } else {
        out.PutState(longhaul::SaveState(*codec, *state));
      }
    }
  }
  const auto sequences = matcher_.sequences();
  out.Put(static_cast<uint32_t>(sequences.size()));
  for (const auto& [key, next] : sequences) {
    const Delivery::Receivers& receivers = matcher_.receivers(key);
    PutChannelHead(key, next, receivers.size(), out);
    for (const std::shared_ptr<FrameReceiver>& receiver : receivers) {
      std::vector<std::byte> state(receiver->bytes());
      receiver->Save(state);
      out.PutState(state);
    }
  }
  return out.Seal();
}

absl::Status GroupCore::CheckState(std::string_view state) const {
  return ParseGroupState(state, options_, context_.coding).status();
}

absl::Status GroupCore::LoadState(std::string_view state) {
  ASSIGN_OR_RETURN(GroupState parsed, ParseGroupState(state, options_, context_.coding));
  return RunAndWait([this, &parsed] { return TakeOver(std::move(parsed)); });
}

absl::Status GroupCore::TakeOver(GroupState state) {
  if (!sender_.point_to_point().empty() || !matcher_.sequences().empty()) {
    return absl::FailedPreconditionError(
        fmt::format("group '{}': load after the first operation", options_.name));
  }
  for (const auto& [key, codec] : state.used) {
    RETURN_IF_ERROR(context_.coding.Use(key.first, key.second, codec));
  }
  sender_.encoder().set_encoded_frames(std::move(state.encoded_frames));
  for (auto& [key, channel] : state.senders) sender_.ChannelOf(key) = std::move(channel);
  for (auto& [key, receiver] : state.receivers) {
    matcher_.Restore(key, receiver.next_sequence, std::move(receiver.slots));
  }
  return absl::OkStatus();
}

}  // namespace longhaul
