// The second half of Matcher: what happens to a message once a receive has taken it, and the ends
// that are not happy.
#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "compressors/catalog.h"
#include "compressors/frame/frame.h"
#include "compressors/numbers/crc32c.h"
#include "plugin/core/arrival.h"

namespace longhaul {
namespace {

// Whether a codec frame, or its beginning, is one that a receiver must decode in order.
bool WantsState(std::span<const std::byte> frame) {
  return (PeekHeader(frame).flags & (kFlagFirstVisit | kFlagDifference)) != 0;
}

ChannelKey KeyOf(const auto& arrival) {
  return {arrival.rank, arrival.header.space, arrival.header.tag};
}

}  // namespace

void Matcher::Account(Arrival& arrival, const PacketHeader& header,
                      std::span<const std::byte> payload) {
  const PacketHeader& first = arrival.header;
  ++arrival.packets;
  if (header.cancelled()) {
    const std::string_view reason(reinterpret_cast<const char*>(payload.data()), payload.size());
    arrival.failure =
        absl::AbortedError(fmt::format("rank {} gave it up: {}", arrival.rank, reason));
    arrival.complete = true;
    return;
  }
  if (header.offset != arrival.received_bytes || header.message_bytes != first.message_bytes ||
      header.type != first.type || header.elements != first.elements ||
      header.codec != first.codec) {
    arrival.failure = absl::DataLossError("its packets do not belong together");
    arrival.complete = true;
    return;
  }
  arrival.crc = Crc32c(payload, arrival.crc);
  if (arrival.crc != header.payload_crc && arrival.failure.ok()) {
    arrival.failure = absl::DataLossError(fmt::format(
        "payload checksum {:08x}, the header says {:08x}", arrival.crc, header.payload_crc));
  }
  arrival.received_bytes += payload.size();
  arrival.complete = arrival.received_bytes == first.message_bytes;
}

void Matcher::Bind(Arrival& arrival, std::shared_ptr<Receipt> receipt) {
  arrival.receipt = std::move(receipt);
  if (arrival.failure.ok()) arrival.failure = Fits(arrival, *arrival.receipt);
  uint64_t offset = 0;
  for (const KeptBytes& kept : arrival.held) {
    Take(arrival, kept.bytes(), offset);
    offset += kept.bytes().size();
  }
  LetGo(arrival);
  if (arrival.complete || !arrival.peer->starving()) return;
  const ChannelKey key{arrival.rank, arrival.header.space, arrival.header.tag};
  SendWant(key, ChannelOf(key));
}

absl::Status Matcher::Fits(const Arrival& arrival, const Receipt& receipt) const {
  if (!receipt.done) return absl::AbortedError("its receive had failed");
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

void Matcher::Take(Arrival& arrival, std::span<const std::byte> bytes, uint64_t offset) {
  if (!arrival.failure.ok() || bytes.empty()) return;
  if (arrival.header.codec == 0) {
    std::memcpy(static_cast<std::byte*>(arrival.receipt->x.values) + offset, bytes.data(),
                bytes.size());
  } else if (bytes.size() == arrival.header.message_bytes && !WantsState(bytes)) {
    Decode(arrival, bytes);
  } else {
    if (offset == 0) {
      arrival.assembled = context_->node->pool().Acquire(arrival.header.message_bytes);
    }
    std::memcpy(arrival.assembled.bytes().data() + offset, bytes.data(), bytes.size());
  }
}

void Matcher::Decode(Arrival& arrival, std::span<const std::byte> frame) {
  const absl::Duration start = context_->Now();
  const Tensor x = CodecTensor(arrival.receipt->x, arrival.header);
  if (WantsState(frame)) {
    Channel& channel = ChannelOf(KeyOf(arrival));
    const size_t slot = SlotOf(arrival);
    if (channel.receivers.size() <= slot) channel.receivers.resize(slot + 1);
    arrival.failure = channel.receivers[slot].Decode(frame, x);
  } else {
    arrival.failure = DecodeFrame(frame, x);
  }
  arrival.decode_time = context_->Now() - start;
}

size_t Matcher::SlotOf(const Arrival& arrival) const {
  return arrival.header.sequence % static_cast<size_t>(std::max(1, context_->options.ef_slots));
}

// Packets of a channel's messages interleave, so a short message may be whole before a longer one
// that was sent before it.
bool Matcher::MustWait(const Channel& channel, const Arrival& arrival) const {
  const auto earlier = [&](const std::shared_ptr<Arrival>& other) {
    return other->header.sequence < arrival.header.sequence && SlotOf(*other) == SlotOf(arrival);
  };
  return std::any_of(channel.incomplete.begin(), channel.incomplete.end(), earlier) ||
         std::any_of(channel.waiting.begin(), channel.waiting.end(), earlier);
}

// Completions may forget the channel, so it is looked up anew each time.
void Matcher::FinishWaiting(const ChannelKey& key) {
  for (;;) {
    const auto found = channels_.find(key);
    if (found == channels_.end()) return;
    auto& waiting = found->second->waiting;
    const auto next = std::find_if(waiting.begin(), waiting.end(), [&](const auto& arrival) {
      return !MustWait(*found->second, *arrival);
    });
    if (next == waiting.end()) return;
    const std::shared_ptr<Arrival> arrival = *next;
    waiting.erase(next);
    Finish(arrival);
  }
}

void Matcher::LetGo(Arrival& arrival) {
  arrival.held.clear();
  if (arrival.held_bytes == 0) return;
  arrival.peer->Release(std::exchange(arrival.held_bytes, 0));
}

void Matcher::Finish(const std::shared_ptr<Arrival>& whole) {
  Arrival& arrival = *whole;
  const ChannelKey key = KeyOf(arrival);
  const std::shared_ptr<Receipt> receipt = arrival.receipt;
  if (arrival.failure.ok() && !arrival.assembled.bytes().empty()) {
    Channel& channel = ChannelOf(key);
    if (WantsState(arrival.assembled.bytes()) && MustWait(channel, arrival)) {
      channel.waiting.push_back(whole);
      return;
    }
    // A receive that has failed meanwhile has no tensor to decode into any more.
    if (receipt->done) Decode(arrival, arrival.assembled.bytes());
    arrival.assembled = PooledBuffer();
  }
  if (!receipt->done) return FinishWaiting(key);
  if (!arrival.failure.ok()) {
    Fail(*receipt, From(arrival.rank, arrival.header.sequence), arrival.failure);
    return FinishWaiting(key);
  }
  const PacketHeader& header = arrival.header;
  context_->counters.Count(
      arrival.rank, Direction::kReceived,
      {.header = header,
       .message_bytes = static_cast<int64_t>(header.message_bytes) +
                        arrival.packets * static_cast<int64_t>(kPacketHeaderBytes),
       .crc = arrival.crc,
       .codec = header.codec == 0 ? std::string() : CodecNameOf(header.codec),
       .coding = arrival.decode_time});
  Complete(*receipt, arrival.rank);
  FinishWaiting(key);
}

void Matcher::Complete(Receipt& receipt, absl::StatusOr<int> result) {
  if (!receipt.done) return;  // failing one receive of a collective fails its others
  --outstanding_;
  receipt.done(std::move(result));
}

std::string Matcher::From(int rank, uint64_t sequence) const {
  return fmt::format("rank {}, sequence {}", rank, sequence);
}

void Matcher::Fail(Receipt& receipt, std::string_view from, const absl::Status& why) {
  Complete(receipt, absl::Status(why.code(),
                                 fmt::format("recv of {} on rank {} of group '{}' from {}, {}: {}",
                                             ToString(receipt.x), context_->options.rank,
                                             context_->options.name, from,
                                             ToString(receipt.space, receipt.tag),
                                             std::string(why.message()))));
}

// Whole messages that nobody has taken yet stay: they did arrive.
void Matcher::OnPeerGone(int rank) {
  std::vector<std::pair<std::shared_ptr<Receipt>, std::string>> failed;
  std::vector<ChannelKey> orphaned;
  for (const auto& [key, channel] : channels_) {
    if (key.rank != rank) continue;
    for (size_t i = 0; i < channel->posted.size(); ++i) {
      failed.emplace_back(channel->posted[i], From(rank, channel->next_sequence + i));
    }
    channel->posted.clear();
    for (const std::shared_ptr<Arrival>& arrival : channel->incomplete) {
      LetGo(*arrival);
      arrival->failure = absl::UnavailableError("its sender is gone");
      if (arrival->receipt != nullptr) {
        failed.emplace_back(
            arrival->receipt,
            fmt::format("{} ({} of {} bytes arrived)", From(rank, arrival->header.sequence),
                        arrival->received_bytes, arrival->header.message_bytes));
      }
      std::erase(channel->unmatched, arrival);
    }
    channel->incomplete.clear();
    orphaned.push_back(key);
  }
  const Peer& gone = *context_->peers[static_cast<size_t>(rank)];
  // One that left in good order takes nothing away from the others.
  const bool hopeless = gone.state() == Peer::State::kLost || !AnyUsable();
  for (auto& [tag, receipts] : any_) {
    if (!hopeless) break;
    for (std::shared_ptr<Receipt>& receipt : receipts) {
      failed.emplace_back(std::move(receipt), "any rank");
    }
    receipts.clear();
  }
  const absl::Status why = gone.why();
  for (const auto& [receipt, from] : failed) Fail(*receipt, from, why);
  for (const ChannelKey& key : orphaned) FinishWaiting(key);  // they did arrive
}

void Matcher::FailAll(const absl::Status& why) {
  std::vector<std::pair<std::shared_ptr<Receipt>, std::string>> failed;
  for (const auto& [key, channel] : channels_) {
    for (const std::shared_ptr<Receipt>& receipt : channel->posted) {
      failed.emplace_back(receipt, fmt::format("rank {}", key.rank));
    }
    for (const std::shared_ptr<Arrival>& arrival : channel->waiting) {
      failed.emplace_back(arrival->receipt, fmt::format("rank {}", key.rank));
    }
    for (const std::shared_ptr<Arrival>& arrival : channel->incomplete) {
      if (arrival->receipt != nullptr) {
        failed.emplace_back(arrival->receipt, fmt::format("rank {}", key.rank));
      }
    }
    for (const std::shared_ptr<Arrival>& arrival : channel->unmatched) LetGo(*arrival);
  }
  channels_.clear();
  for (const auto& [tag, receipts] : any_) {
    for (const auto& receipt : receipts) failed.emplace_back(receipt, "any rank");
  }
  any_.clear();
  for (const auto& [receipt, from] : failed) Fail(*receipt, from, why);
}

void Matcher::FailChannel(const ChannelKey& key, const absl::Status& why) {
  const auto found = channels_.find(key);
  if (found == channels_.end()) return;
  std::vector<std::shared_ptr<Receipt>> failed(found->second->posted.begin(),
                                               found->second->posted.end());
  for (const std::shared_ptr<Arrival>& arrival : found->second->waiting) {
    failed.push_back(arrival->receipt);
  }
  found->second->waiting.clear();
  for (const std::shared_ptr<Arrival>& arrival : found->second->incomplete) {
    if (arrival->receipt == nullptr) continue;
    failed.push_back(arrival->receipt);
    arrival->failure = why;
  }
  for (const std::shared_ptr<Receipt>& receipt : failed) Complete(*receipt, why);
}

void Matcher::OnStarving(int rank) {
  for (const auto& [key, channel] : channels_) {
    if (key.rank == rank) SendWant(key, *channel);
  }
}

void Matcher::SendWant(const ChannelKey& key, Channel& channel) {
  uint64_t below = channel.next_sequence - channel.unmatched.size() + channel.posted.size();
  if (key.space == ChannelSpace::kPointToPoint) {
    const auto any = any_.find(key.tag);
    if (any != any_.end()) below += any->second.size();
  }
  if (below <= channel.wanted_below) return;
  channel.wanted_below = below;
  PacketHeader want = context_->Header(PacketKind::kWant);
  want.space = key.space;
  want.tag = key.tag;
  want.sequence = below;
  context_->peers[static_cast<size_t>(key.rank)]->SendControl(want);
}

void Matcher::Forget(const ChannelKey& key) {
  const auto found = channels_.find(key);
  if (found == channels_.end()) return;
  for (const std::shared_ptr<Arrival>& arrival : found->second->unmatched) LetGo(*arrival);
  channels_.erase(found);
}

bool Matcher::quiet() const {
  if (outstanding_ > 0) return false;
  return std::all_of(channels_.begin(), channels_.end(), [](const auto& entry) {
    const auto taken = [](const std::shared_ptr<Arrival>& arrival) {
      return arrival->receipt != nullptr;
    };
    const Channel& channel = *entry.second;
    return channel.posted.empty() && channel.waiting.empty() &&
           std::none_of(channel.incomplete.begin(), channel.incomplete.end(), taken);
  });
}

std::map<ChannelKey, uint64_t> Matcher::sequences() const {
  std::map<ChannelKey, uint64_t> all;
  for (const auto& [key, channel] : channels_) {
    if (key.space != ChannelSpace::kPointToPoint) continue;
    all.emplace(key, channel->next_sequence - channel->unmatched.size());
  }
  return all;
}

const std::vector<FrameReceiver>& Matcher::receivers(const ChannelKey& key) const {
  static const std::vector<FrameReceiver> kNone;
  const auto found = channels_.find(key);
  return found == channels_.end() ? kNone : found->second->receivers;
}

void Matcher::Restore(const ChannelKey& key, uint64_t next, std::vector<FrameReceiver> receivers) {
  Channel& channel = ChannelOf(key);
  channel.next_sequence = next;
  channel.receivers = std::move(receivers);
}

}  // namespace longhaul
