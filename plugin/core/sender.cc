#include "plugin/core/sender.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "compressors/numbers/noise.h"
#include "compressors/states/mirror.h"

namespace longhaul {

std::string ToString(ChannelSpace space, int tag) {
  return fmt::format("{} {}", space == ChannelSpace::kPointToPoint ? "tag" : "collective", tag);
}

Sender::Channel& Sender::ChannelOf(const ChannelKey& key) {
  std::unique_ptr<Channel>& channel = channels_[key];
  if (channel == nullptr) channel = std::make_unique<Channel>();
  return *channel;
}

std::map<ChannelKey, const Sender::Channel*> Sender::point_to_point() const {
  std::map<ChannelKey, const Channel*> sorted;
  for (const auto& [key, channel] : channels_) {
    if (key.space == ChannelSpace::kPointToPoint) sorted.emplace(key, channel.get());
  }
  return sorted;
}

std::string Sender::Describe(const PacketHeader& header, int dst) const {
  return fmt::format("send of {} from rank {} to rank {} of group '{}', {}, sequence {}",
                     ToString(header), context_->options.rank, dst, context_->options.name,
                     ToString(header.space, header.tag), header.sequence);
}

void Sender::Send(const WireTensor& x, int dst, ChannelSpace space, int tag, Group::Done done) {
  Peer& peer = *context_->peers[static_cast<size_t>(dst)];
  Channel& channel = ChannelOf({dst, space, tag});
  auto message = std::make_shared<OutMessage>();
  PacketHeader& header = message->header = context_->Header(PacketKind::kData);
  header.space = space;
  header.tag = tag;
  header.sequence = channel.next_sequence++;
  DescribeTensor(x, header);
  message->exempt = header.sequence < channel.wanted_below;
  message->payload = {static_cast<const std::byte*>(x.values),
                      header.elements * BytesPerElement(x.type)};
  Encoded encoded;
  absl::Status failure;
  const Codec* codec = space == ChannelSpace::kPointToPoint && peer.usable()
                           ? context_->coding.Pick(x, dst, tag)
                           : nullptr;
  if (codec != nullptr) {
    absl::StatusOr<Encoded> made = Encode(*codec, x, header, dst, channel);
    failure = made.status();
    if (made.ok()) {
      encoded = *std::move(made);
      header.codec = codec->id();
      message->payload = encoded.frame.bytes();
      message->encoded = std::move(encoded.frame);
    }
  }
  header.message_bytes = message->payload.size();
  OutMessage* const raw = message.get();
  message->done = [this, owner = context_->owner.lock(), raw, dst, name = encoded.codec,
                   time = encoded.time, done = std::move(done)](absl::Status status) {
    if (status.ok()) {
      const auto packets =
          context_->peers[static_cast<size_t>(dst)]->outbox().packets_of(raw->header.message_bytes);
      context_->counters.Count(dst, Direction::kSent,
                               {.header = raw->header,
                                .message_bytes = static_cast<int64_t>(raw->header.message_bytes +
                                                                      packets * kPacketHeaderBytes),
                                .crc = raw->crc,
                                .codec = name,
                                .coding = time});
    } else {
      if (!name.empty()) ForgetMirror(raw->header, dst);
      status = absl::Status(status.code(), fmt::format("{}: {}", Describe(raw->header, dst),
                                                       std::string(status.message())));
    }
    pending_.erase(raw);
    done(std::move(status));
  };
  if (!failure.ok()) {
    // The receiver must learn that this number carries nothing.
    peer.outbox().SubmitCancelled(std::move(message), std::move(failure));
    return;
  }
  peer.outbox().Submit(message);
  if (message->done) pending_.emplace(raw, Pending{message, context_->NewDeadline(), dst});
}

absl::StatusOr<Sender::Encoded> Sender::Encode(const Codec& codec, const WireTensor& x,
                                               const PacketHeader& header, int dst,
                                               Channel& channel) {
  const Tensor tensor = CodecTensor(x, header);
  const auto slots = static_cast<size_t>(std::max(1, context_->options.ef_slots));
  if (channel.residuals.size() != slots) channel.residuals.resize(slots);
  std::unique_ptr<CodecState>& residual = channel.residuals[header.sequence % slots];
  if (residual == nullptr || residual->shape() != tensor.shape) {
    residual = codec.NewState(tensor.shape);
  }
  const uint64_t seed =
      FoldSeed({context_->options.seed, header.sequence, static_cast<uint64_t>(header.source_rank),
                static_cast<uint64_t>(header.tag)});
  Encoded encoded;
  const absl::Duration start = context_->Now();
  encoded.frame = context_->node->pool().Acquire(codec.MaxFrameBytes(tensor.shape, tensor.dtype));
  const absl::StatusOr<size_t> bytes =
      codec.Encode(tensor, seed, residual.get(), encoded.frame.bytes());
  if (!bytes.ok()) return bytes.status();
  encoded.time = context_->Now() - start;
  encoded.codec = codec.name();
  encoded.frame.Shrink(*bytes);
  SampleNmse(encoded.frame.bytes(), tensor, residual.get(), dst);
  return encoded;
}

// A frame that may not have arrived: what the receiver holds is no longer known, so the next frame
// of this slot must be one of values, which the receiver takes whatever it holds.
void Sender::ForgetMirror(const PacketHeader& header, int dst) {
  const auto found = channels_.find({dst, header.space, header.tag});
  if (found == channels_.end() || found->second->residuals.empty()) return;
  const auto& residuals = found->second->residuals;
  auto* mirror = dynamic_cast<Mirror*>(residuals[header.sequence % residuals.size()].get());
  if (mirror != nullptr) mirror->Reset();
}

void Sender::SampleNmse(std::span<const std::byte> frame, const Tensor& x, const CodecState* state,
                        int dst) {
  if (context_->options.nmse_every <= 0) return;
  encoded_frames_.resize(context_->peers.size());
  if (encoded_frames_[static_cast<size_t>(dst)]++ % context_->options.nmse_every != 0) return;
  const PooledBuffer scratch = context_->node->pool().Acquire(x.shape.elements() * sizeof(float));
  const absl::StatusOr<double> nmse = FrameNmse(frame, x, state, scratch.bytes());
  if (nmse.ok()) context_->counters.CountNmse(dst, *nmse);
}

void Sender::OnWant(const ChannelKey& key, uint64_t below) {
  Channel& channel = ChannelOf(key);
  channel.wanted_below = std::max(channel.wanted_below, below);
  context_->peers[static_cast<size_t>(key.rank)]->outbox().Exempt([&](const PacketHeader& header) {
    return header.group == context_->hash && header.space == key.space && header.tag == key.tag &&
           header.sequence < below;
  });
}

absl::Duration Sender::Expire(absl::Duration now) {
  absl::Duration next = absl::InfiniteDuration();
  std::vector<Pending> overdue;
  for (auto& [raw, pending] : pending_) {
    if (pending.deadline <= now) {
      overdue.push_back(pending);
      pending.deadline = absl::InfiniteDuration();  // cancelled once
    } else {
      next = std::min(next, pending.deadline);
    }
  }
  for (const Pending& pending : overdue) {
    Peer& peer = *context_->peers[static_cast<size_t>(pending.dst)];
    peer.outbox().Cancel(pending.message,
                         absl::DeadlineExceededError(fmt::format(
                             "{} of {} bytes sent within the timeout of {}",
                             pending.message->sent_bytes, pending.message->header.message_bytes,
                             absl::FormatDuration(context_->options.timeout))));
  }
  return next;
}

void Sender::Cancel(absl::FunctionRef<bool(const PacketHeader&)> which, const absl::Status& why) {
  std::vector<Pending> chosen;
  for (const auto& [raw, pending] : pending_) {
    if (which(raw->header)) chosen.push_back(pending);
  }
  for (const Pending& pending : chosen) {
    context_->peers[static_cast<size_t>(pending.dst)]->outbox().Cancel(pending.message, why);
  }
}

void Sender::CancelAll(const absl::Status& why) {
  Cancel([](const PacketHeader&) { return true; }, why);
}

void Sender::CancelChannels(ChannelSpace space, int tag, const absl::Status& why) {
  Cancel([&](const PacketHeader& h) { return h.space == space && h.tag == tag; }, why);
}

}  // namespace longhaul
