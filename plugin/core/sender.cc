#include "plugin/core/sender.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "compressors/frame/frame.h"

namespace longhaul {

std::string ToString(ChannelSpace space, int tag) {
  return fmt::format("{} {}", space == ChannelSpace::kPointToPoint ? "tag" : "collective", tag);
}

SendChannel& Sender::ChannelOf(const ChannelKey& key) {
  std::unique_ptr<SendChannel>& channel = channels_[key];
  if (channel == nullptr) channel = std::make_unique<SendChannel>();
  return *channel;
}

std::map<ChannelKey, const SendChannel*> Sender::point_to_point() const {
  std::map<ChannelKey, const SendChannel*> sorted;
  for (const auto& [key, channel] : channels_) {
    if (key.space == ChannelSpace::kPointToPoint) sorted.emplace(key, channel.get());
  }
  return sorted;
}

Outbox& Sender::OutboxOf(const Ticket& ticket) {
  return context_->peers[static_cast<size_t>(ticket.key.rank)]->outbox();
}

std::string Sender::Describe(const Ticket& ticket) const {
  const PacketHeader& header = ticket.message->header;
  return fmt::format("send of {} from rank {} to rank {} of group '{}', {}, sequence {}",
                     ToString(header), context_->options.rank, ticket.key.rank,
                     context_->options.name, ToString(header.space, header.tag), header.sequence);
}

void Sender::Send(const WireTensor& x, int dst, const CollectiveCall& call, int tag,
                  Group::Done done) {
  const ChannelKey key{dst, ChannelSpace::kCollective, tag};
  std::shared_ptr<Ticket> ticket = NewTicket(x, key, std::move(done));
  WriteCall(call, ticket->message->header);
  ChannelOf(key).unsubmitted.push_back(std::move(ticket));
  SubmitInOrder(key);
}

void Sender::SendEncoded(const WireTensor& x, const Codec* codec, void* decoded, int tag,
                         std::vector<Target> targets) {
  std::shared_ptr<Ticket> first;
  for (Target& target : targets) {
    const ChannelKey key{target.rank, ChannelSpace::kCollective, tag};
    std::shared_ptr<Ticket> ticket = NewTicket(x, key, std::move(target.done));
    WriteCall(target.call, ticket->message->header);
    ticket->codec = codec;
    ChannelOf(key).unsubmitted.push_back(ticket);
    if (first == nullptr) {
      first = std::move(ticket);
    } else {
      first->copies.push_back(std::move(ticket));
    }
  }
  first->decoded = decoded;
  encoder_.AddCopies(std::move(first));
}

void Sender::Send(const WireTensor& x, void* decoded, int dst, int tag, Group::Done done) {
  const ChannelKey key{dst, ChannelSpace::kPointToPoint, tag};
  if (context_->coding.TooShort(x, dst, tag)) context_->counters.CountShort(x.elements());
  if (decoded == nullptr && Cross(x, key, done)) return;
  std::shared_ptr<Ticket> ticket = NewTicket(x, key, std::move(done));
  SendChannel& channel = ChannelOf(key);
  channel.unsubmitted.push_back(ticket);
  const bool reachable = context_->peers[static_cast<size_t>(dst)]->usable();
  ticket->codec = reachable ? context_->coding.Pick(x, dst, tag) : nullptr;
  if (ticket->codec == nullptr) {
    const size_t bytes = ticket->message->payload.size();
    if (decoded != nullptr && bytes > 0) std::memcpy(decoded, x.values, bytes);
    return SubmitInOrder(key);
  }
  ticket->decoded = decoded;
  encoder_.Add(channel, std::move(ticket));
}

bool Sender::Cross(const WireTensor& x, const ChannelKey& key, const Group::Done& done) {
  Peer& peer = *context_->peers[static_cast<size_t>(key.rank)];
  SendChannel& channel = ChannelOf(key);
  const Codec* codec = context_->coding.Pick(x, key.rank, key.tag);
  if (x.coder != nullptr || !context_->node->codes_inline() || !channel.unsubmitted.empty() ||
      !channel.uncoded.empty() || (codec != nullptr && codec->NewState({1, 1}) != nullptr)) {
    return false;
  }
  Crossing crossing{.header = HeaderOf(x, key, channel.next_sequence),
                    .x = x,
                    .codec = codec,
                    .seed = 0,
                    .sampled = codec != nullptr && encoder_.NextIsSampled(key.rank),
                    .outbox = peer.outbox(),
                    .encode = {},
                    .decode = {},
                    .nmse = {}};
  crossing.seed = FrameSeed(context_->options.seed, crossing.header);
  if (!peer.Cross(crossing)) return false;
  ++ChannelOf(key).next_sequence;
  if (codec != nullptr) encoder_.CountCrossed(key.rank, crossing);
  context_->node->CountSentCrossing(crossing.wire_bytes);
  context_->counters.Count(
      key.rank, Direction::kSent,
      {.header = crossing.header,
       .message_bytes = crossing.wire_bytes,
       .crc = crossing.crc,
       .codec = codec == nullptr ? std::string_view() : codec->name(),
       .kind = codec == nullptr
                   ? KindOfTag(key.tag)
                   : context_->coding.KindOf(context_->options.rank, key.rank, key.tag),
       .coding = crossing.encode,
       .crossed = true});
  if (context_->watch) {
    const absl::Duration now = context_->Now();
    context_->watch({.peer = key.rank,
                     .sent = true,
                     .collective = false,
                     .tag = key.tag,
                     .sequence = crossing.header.sequence,
                     .bytes = crossing.wire_bytes,
                     .at = now - crossing.decode,
                     .coded = now - crossing.decode,
                     .coding = crossing.encode});
  }
  done(absl::OkStatus());
  return true;
}

PacketHeader Sender::HeaderOf(const WireTensor& x, const ChannelKey& key, uint64_t sequence) const {
  PacketHeader header = context_->Header(PacketKind::kData);
  header.space = key.space;
  header.tag = key.tag;
  header.sequence = sequence;
  DescribeTensor(x, header);
  header.message_bytes = header.elements * BytesPerElement(x.type);
  return header;
}

std::shared_ptr<Ticket> Sender::NewTicket(const WireTensor& x, const ChannelKey& key,
                                          Group::Done done) {
  auto ticket = std::make_shared<Ticket>();
  ticket->key = key;
  ticket->x = x;
  ticket->message = std::make_shared<OutMessage>();
  OutMessage& message = *ticket->message;
  message.header = HeaderOf(x, key, ChannelOf(key).next_sequence++);
  message.payload = {static_cast<const std::byte*>(x.values), message.header.message_bytes};
  message.done = [this, owner = context_->owner.lock(), weak = std::weak_ptr(ticket),
                  done = std::move(done)](absl::Status status) {
    OnDone(weak.lock(), done, std::move(status));  // pending_ holds it until then
  };
  pending_.emplace(ticket.get(), Pending{ticket, context_->DeadlineIn(key.space)});
  return ticket;
}

void Sender::OnDone(const std::shared_ptr<Ticket>& ticket, const Group::Done& done,
                    absl::Status status) {
  const OutMessage& message = *ticket->message;
  const bool encoded = message.header.codec != 0;
  if (status.ok()) {
    const auto header_bytes = message.packets * static_cast<int64_t>(kPacketHeaderBytes);
    context_->counters.Count(
        ticket->key.rank, Direction::kSent,
        {.header = message.header,
         .message_bytes = static_cast<int64_t>(message.header.message_bytes) + header_bytes,
         .crc = message.order.empty() ? message.crc : FrameCrc(message.payload),
         .codec = encoded ? ticket->codec->name() : std::string_view(),
         .kind = encoded ? context_->coding.KindOf(context_->options.rank, ticket->key.rank,
                                                   ticket->key.tag)
                         : KindOfTag(ticket->key.tag),
         .coding = ticket->encode_time,
         .on_device = ticket->on_device});
    if (context_->watch && ticket->submitted_at > absl::ZeroDuration()) {
      context_->watch({.peer = ticket->key.rank,
                       .sent = true,
                       .collective = ticket->key.space == ChannelSpace::kCollective,
                       .tag = ticket->key.tag,
                       .sequence = message.header.sequence,
                       .bytes = static_cast<int64_t>(message.header.message_bytes) + header_bytes,
                       .at = ticket->submitted_at,
                       .coded = ticket->coded_at,
                       .coding = ticket->encode_time});
    }
  } else {
    const auto channel = channels_.find(ticket->key);
    if (encoded && channel != channels_.end()) encoder_.ForgetState(*channel->second, *ticket);
    status = absl::Status(status.code(),
                          fmt::format("{}: {}", Describe(*ticket), std::string(status.message())));
  }
  pending_.erase(ticket.get());
  done(std::move(status));
}

void Sender::OnCoded(const std::shared_ptr<Ticket>& ticket) {
  if (context_->watch) ticket->coded_at = context_->Now();
  if (!ticket->submitted) return SubmitInOrder(ticket->key);
  if (ticket->failure.ok()) {
    OutboxOf(*ticket).Continue(ticket->message);
  } else {
    OutboxOf(*ticket).Cancel(ticket->message, ticket->failure);
  }
}

// Callbacks may send more or forget the channel, so it is looked up anew each time.
void Sender::SubmitInOrder(const ChannelKey& key) {
  for (;;) {
    const auto found = channels_.find(key);
    if (found == channels_.end() || found->second->unsubmitted.empty()) return;
    const std::shared_ptr<Ticket> ticket = found->second->unsubmitted.front();
    const std::shared_ptr<OutMessage>& message = ticket->message;
    if (ticket->failure.ok() && message->coding && message->ready_bytes == 0) return;
    found->second->unsubmitted.pop_front();
    ticket->submitted = true;
    if (context_->watch) ticket->submitted_at = context_->Now();
    message->exempt = message->header.sequence < found->second->wanted_below;
    if (ticket->failure.ok()) {
      OutboxOf(*ticket).Submit(message);
    } else {
      // The receiver must learn that this number carries nothing.
      OutboxOf(*ticket).SubmitCancelled(message, ticket->failure);
    }
  }
}

void Sender::GiveUp(const std::shared_ptr<Ticket>& ticket, const absl::Status& why) {
  ticket->abandoned = true;
  if (ticket->failure.ok()) ticket->failure = why;
  if (ticket->submitted) {
    OutboxOf(*ticket).Cancel(ticket->message, why);
  } else {
    SubmitInOrder(ticket->key);
  }
}

void Sender::OnWant(const ChannelKey& key, uint64_t below) {
  SendChannel& channel = ChannelOf(key);
  channel.wanted_below = std::max(channel.wanted_below, below);
  context_->peers[static_cast<size_t>(key.rank)]->outbox().Exempt([&](const PacketHeader& header) {
    return header.group == context_->hash && header.space == key.space && header.tag == key.tag &&
           header.sequence < below;
  });
}

absl::Duration Sender::Expire(absl::Duration now) {
  absl::Duration next = absl::InfiniteDuration();
  std::vector<std::shared_ptr<Ticket>> overdue;
  for (auto& [raw, pending] : pending_) {
    if (pending.deadline <= now) {
      overdue.push_back(pending.ticket);
      pending.deadline = absl::InfiniteDuration();  // cancelled once
    } else {
      next = std::min(next, pending.deadline);
    }
  }
  for (const std::shared_ptr<Ticket>& ticket : overdue) {
    const OutMessage& message = *ticket->message;
    GiveUp(ticket,
           absl::DeadlineExceededError(fmt::format(
               "{} of {} bytes sent within the timeout of {}", message.sent_bytes,
               message.header.message_bytes, absl::FormatDuration(context_->options.timeout))));
  }
  return next;
}

void Sender::Cancel(absl::FunctionRef<bool(const PacketHeader&)> which, const absl::Status& why) {
  std::vector<std::shared_ptr<Ticket>> chosen;
  for (const auto& [raw, pending] : pending_) {
    if (which(pending.ticket->message->header)) chosen.push_back(pending.ticket);
  }
  for (const std::shared_ptr<Ticket>& ticket : chosen) GiveUp(ticket, why);
}

void Sender::CancelAll(const absl::Status& why) {
  Cancel([](const PacketHeader&) { return true; }, why);
}

void Sender::CancelChannels(ChannelSpace space, int tag, const absl::Status& why) {
  Cancel([&](const PacketHeader& h) { return h.space == space && h.tag == tag; }, why);
}

}  // namespace longhaul
