#include "plugin/core/delivery.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "compressors/catalog.h"

namespace longhaul {

ChannelKey KeyOf(const Arrival& arrival) {
  return {arrival.rank, arrival.header.space, arrival.header.tag};
}

void Delivery::Bind(const std::shared_ptr<Arrival>& arrival, std::shared_ptr<Receipt> receipt) {
  arrival->receipt = std::move(receipt);
  std::unique_ptr<Channel>& channel = channels_[KeyOf(*arrival)];
  if (channel == nullptr) channel = std::make_unique<Channel>();
  channel->open.push_back(arrival);
  if (arrival->failure.ok()) arrival->failure = Fits(*arrival);
  uint64_t offset = 0;
  const std::vector<KeptBytes> held = std::move(arrival->held);
  for (const KeptBytes& kept : held) {
    Take(arrival, kept.bytes(), offset);
    offset += kept.bytes().size();
  }
  arrival->LetGo();
}

absl::Status Delivery::Fits(const Arrival& arrival) const {
  const Receipt& receipt = *arrival.receipt;
  if (!receipt.open()) return absl::AbortedError("its receive had failed");
  const PacketHeader& header = arrival.header;
  if (header.type != receipt.x.type ||
      header.elements != static_cast<uint64_t>(receipt.x.elements())) {
    return absl::InvalidArgumentError(fmt::format("rank {} posted {}, rank {} sent {}",
                                                  context_->options.rank, ToString(receipt.x),
                                                  arrival.rank, ToString(header)));
  }
  if (header.codec != 0 && context_->options.codecs.lossless()) {
    return absl::InvalidArgumentError(
        fmt::format("rank {} sent it with {}, but this rank's policy for the group is lossless",
                    arrival.rank, CodecNameOf(header.codec)));
  }
  if (header.codec != 0 &&
      header.message_bytes > MaxFrameBytes(header.codec, CodecTensor(receipt.x, header))) {
    return absl::DataLossError(fmt::format("no {} frame of {} has {} bytes",
                                           CodecNameOf(header.codec), ToString(header),
                                           header.message_bytes));
  }
  return absl::OkStatus();
}

void Delivery::Take(const std::shared_ptr<Arrival>& arrival, std::span<const std::byte> bytes,
                    uint64_t offset) {
  if (!arrival->failure.ok() || bytes.empty()) return;
  const Receipt& receipt = *arrival->receipt;
  const WireTensor& x = receipt.x;
  if (!receipt.open()) {  // nobody reads it any more
    arrival->failure = absl::AbortedError("abandoned");
    return;
  }
  if (arrival->header.codec == 0 && x.coder == nullptr) {
    std::memcpy(static_cast<std::byte*>(x.values) + offset, bytes.data(), bytes.size());
    return;
  }
  const Tensor tensor = CodecTensor(x, arrival->header);
  const bool short_frame = bytes.size() == arrival->header.message_bytes && x.coder == nullptr &&
                           tensor.shape.elements() < HostCoder::kWorthHandingOver;
  if (short_frame && !arrival->header.streamed() && !WantsState(bytes)) {
    const absl::Duration start = context_->Now();
    arrival->failure = DecodeFrame(bytes, tensor);  // out of the transport's buffer
    arrival->decode_time = context_->Now() - start;
    arrival->decoded = true;
    return;
  }
  if (offset == 0) {
    const auto reading = context_->CoderOf(x).reads_pieces() ? Arrival::Reading::kInPieces
                                                             : Arrival::Reading::kWhole;
    arrival->failure = arrival->MakeRoom(bytes, tensor, reading, context_->node->pool());
    if (!arrival->failure.ok()) return;
  }
  arrival->Place(bytes);
  DecodePiece(arrival);
}

// As far as the frame has come, unless the coder still has the piece before.
void Delivery::DecodePiece(const std::shared_ptr<Arrival>& arrival) {
  if (arrival->reader == nullptr || arrival->decoding || arrival->decoded) return;
  DecodeJob job{.frame = arrival->frame(),
                .x = CodecTensor(arrival->receipt->x, arrival->header),
                .reader = arrival->reader.get(),
                .reach = arrival->placed_bytes(),
                .done = {}};
  Decode(arrival, std::move(job));
}

void Delivery::DecodeWhole(const std::shared_ptr<Arrival>& arrival) {
  const bool raw = arrival->header.codec == 0;
  std::shared_ptr<FrameReceiver> receiver;
  if (!raw && WantsState(arrival->frame())) {
    if (MustWait(*arrival)) return;
    receiver = ReceiverOf(*arrival);
  }
  DecodeJob job{.frame = arrival->frame(),
                .x = CodecTensor(arrival->receipt->x, arrival->header),
                .receiver = receiver.get(),
                .content = raw ? DecodeJob::Content::kRaw : DecodeJob::Content::kFrame,
                .raw_bytes = arrival->frame().size(),
                .done = {}};
  // Kept by the job as long as it is at work.
  job.done = [receiver](DecodeResult) {};
  Decode(arrival, std::move(job));
}

void Delivery::Decode(const std::shared_ptr<Arrival>& arrival, DecodeJob job) {
  arrival->decoding = arrival->receipt->decoding = true;
  job.after = arrival->receipt->x.after.get();
  job.done = [this, owner = context_->owner.lock(), arrival,
              held = context_->HoldNodeFor(arrival->receipt->x),
              kept = std::move(job.done)](DecodeResult result) mutable {
    context_->node->RunOnStrand(
        [this, owner, arrival, kept = std::move(kept), result = std::move(result)]() mutable {
          kept = nullptr;
          OnDecoded(arrival, std::move(result));
        });
  };
  context_->CoderOf(arrival->receipt->x).Decode(std::move(job));
}

void Delivery::OnDecoded(const std::shared_ptr<Arrival>& arrival, DecodeResult result) {
  const std::shared_ptr<Receipt> receipt = arrival->receipt;
  arrival->decoding = receipt->decoding = false;
  arrival->decode_time += result.time;
  arrival->on_device = result.on_device;
  if (arrival->failure.ok()) arrival->failure = std::move(result.status);
  const bool whole =
      arrival->reader == nullptr || arrival->reader->reached() == arrival->reader->frame_bytes();
  arrival->decoded = whole || !arrival->failure.ok();
  if (receipt->ended) {
    const absl::StatusOr<int> ended = *std::exchange(receipt->ended, std::nullopt);
    Complete(receipt, ended);
  }
  // Bind may still be placing what was held of a complete message: who called it finishes then.
  const bool placed =
      arrival->reader == nullptr || arrival->placed_bytes() == arrival->header.message_bytes;
  if (arrival->complete && (placed || arrival->decoded)) {
    Finish(arrival);
  } else if (arrival->failure.ok() && receipt->open() &&
             arrival->placed_bytes() > arrival->reader->reached()) {
    DecodePiece(arrival);
  }
}

void Delivery::Finish(const std::shared_ptr<Arrival>& arrival) {
  if (arrival->decoding) return;  // OnDecoded comes back here
  const bool wanted = arrival->failure.ok() && arrival->receipt->open();
  if (!wanted || arrival->decoded || arrival->frame().empty()) return Conclude(arrival);
  if (arrival->reader != nullptr) return DecodePiece(arrival);
  DecodeWhole(arrival);
}

void Delivery::Conclude(const std::shared_ptr<Arrival>& arrival) {
  const ChannelKey key = KeyOf(*arrival);
  if (const auto found = channels_.find(key); found != channels_.end()) {
    std::erase(found->second->open, arrival);
  }
  const std::shared_ptr<Receipt> receipt = arrival->receipt;
  if (!arrival->failure.ok()) {
    Fail(receipt, fmt::format("rank {}, sequence {}", arrival->rank, arrival->header.sequence),
         arrival->failure);
  } else if (receipt->open()) {
    const PacketHeader& header = arrival->header;
    context_->counters.Count(
        arrival->rank, Direction::kReceived,
        {.header = header,
         .message_bytes = static_cast<int64_t>(header.message_bytes) +
                          arrival->packets * static_cast<int64_t>(kPacketHeaderBytes),
         .crc = arrival->Checksum(),
         .codec = header.codec == 0 ? std::string() : CodecNameOf(header.codec),
         .kind = header.codec == 0
                     ? KindOfTag(header.tag)
                     : context_->coding.KindOf(arrival->rank, context_->options.rank, header.tag),
         .coding = arrival->decode_time,
         .on_device = arrival->on_device});
    if (context_->watch && arrival->completed_at > absl::ZeroDuration()) {
      context_->watch({.peer = arrival->rank,
                       .sent = false,
                       .collective = header.space == ChannelSpace::kCollective,
                       .tag = header.tag,
                       .sequence = header.sequence,
                       .bytes = static_cast<int64_t>(header.message_bytes) +
                                arrival->packets * static_cast<int64_t>(kPacketHeaderBytes),
                       .at = arrival->completed_at,
                       .coded = context_->Now(),
                       .coding = arrival->decode_time});
    }
    Complete(receipt, arrival->rank);
  }
  FinishWaiting(key);
}

bool Delivery::Fill(Crossing& crossing, const Receipt& receipt) const {
  const PacketHeader& header = crossing.header;
  const WireTensor& y = receipt.x;
  if (!receipt.open() || y.coder != nullptr || !context_->node->codes_inline()) return false;
  if (header.type != y.type || header.elements != static_cast<uint64_t>(y.elements())) return false;
  if (crossing.codec != nullptr && context_->options.codecs.lossless()) return false;
  return Cross(crossing, y, *context_->node).ok();
}

void Delivery::Crossed(const Crossing& crossing, const std::shared_ptr<Receipt>& receipt) {
  const PacketHeader& header = crossing.header;
  const int rank = header.source_rank;
  context_->counters.Count(
      rank, Direction::kReceived,
      {.header = header,
       .message_bytes = crossing.wire_bytes,
       .crc = crossing.crc,
       .codec = crossing.codec == nullptr ? std::string() : CodecNameOf(header.codec),
       .kind = crossing.codec == nullptr
                   ? KindOfTag(header.tag)
                   : context_->coding.KindOf(rank, context_->options.rank, header.tag),
       .coding = crossing.decode,
       .crossed = true});
  if (context_->watch) {
    const absl::Duration now = context_->Now();
    context_->watch({.peer = rank,
                     .sent = false,
                     .collective = false,
                     .tag = header.tag,
                     .sequence = header.sequence,
                     .bytes = crossing.wire_bytes,
                     .at = now - crossing.decode,
                     .coded = now,
                     .coding = crossing.decode});
  }
  Complete(receipt, rank);
}

void Delivery::Drop(const std::shared_ptr<Arrival>& arrival, const absl::Status& why) {
  arrival->LetGo();
  if (arrival->failure.ok()) arrival->failure = why;
  const auto found = channels_.find(KeyOf(*arrival));
  if (found != channels_.end()) std::erase(found->second->open, arrival);
}

size_t Delivery::SlotOf(const Arrival& arrival) const {
  return arrival.header.sequence % StateSlots(context_->options, arrival.header.tag);
}

// Packets of a channel's messages interleave, so a short message may be whole before a longer one
// that was sent before it.
bool Delivery::MustWait(const Arrival& arrival) const {
  return std::ranges::any_of(Open(KeyOf(arrival)), [&](const std::shared_ptr<Arrival>& other) {
    return other->header.sequence < arrival.header.sequence && SlotOf(*other) == SlotOf(arrival);
  });
}

std::shared_ptr<FrameReceiver> Delivery::ReceiverOf(const Arrival& arrival) {
  Receivers& receivers = channels_.at(KeyOf(arrival))->receivers;
  const size_t slot = SlotOf(arrival);
  while (receivers.size() <= slot) receivers.push_back(std::make_shared<FrameReceiver>());
  return receivers[slot];
}

// Completions may forget the channel, so it is looked up anew each time.
void Delivery::FinishWaiting(const ChannelKey& key) {
  for (;;) {
    const auto& open = Open(key);
    const auto next = std::ranges::find_if(open, [&](const std::shared_ptr<Arrival>& arrival) {
      return arrival->complete && !arrival->decoding && !MustWait(*arrival);
    });
    if (next == open.end()) return;
    const std::shared_ptr<Arrival> arrival = *next;
    Finish(arrival);
    if (arrival->decoding) return;
  }
}

const std::vector<std::shared_ptr<Arrival>>& Delivery::Open(const ChannelKey& key) const {
  static const std::vector<std::shared_ptr<Arrival>> kNone;
  const auto found = channels_.find(key);
  return found == channels_.end() ? kNone : found->second->open;
}

void Delivery::Complete(const std::shared_ptr<Receipt>& receipt, absl::StatusOr<int> result) {
  if (!receipt->open()) return;  // failing one receive of a collective fails its others
  if (receipt->decoding) {
    receipt->ended = std::move(result);
    return;
  }
  --outstanding_;
  receipt->done(std::move(result));
}

void Delivery::Fail(const std::shared_ptr<Receipt>& receipt, std::string_view from,
                    const absl::Status& why) {
  Complete(receipt, absl::Status(why.code(),
                                 fmt::format("recv of {} on rank {} of group '{}' from {}, {}: {}",
                                             ToString(receipt->x), context_->options.rank,
                                             context_->options.name, from,
                                             ToString(receipt->space, receipt->tag),
                                             std::string(why.message()))));
}

bool Delivery::quiet() const {
  return std::ranges::all_of(channels_,
                             [](const auto& entry) { return entry.second->open.empty(); });
}

const Delivery::Receivers& Delivery::receivers(const ChannelKey& key) const {
  static const Receivers kNone;
  const auto found = channels_.find(key);
  return found == channels_.end() ? kNone : found->second->receivers;
}

void Delivery::Restore(const ChannelKey& key, std::vector<FrameReceiver> receivers) {
  auto channel = std::make_unique<Channel>();
  for (FrameReceiver& receiver : receivers) {
    channel->receivers.push_back(std::make_shared<FrameReceiver>(std::move(receiver)));
  }
  channels_[key] = std::move(channel);
}

}  // namespace longhaul
