#include "plugin/core/encoder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "compressors/states/mirror.h"

namespace longhaul {

void Encoder::Add(SendChannel& channel, std::shared_ptr<Ticket> ticket) {
  const size_t slots = StateSlots(context_->options, ticket->key.tag);
  if (channel.residuals.size() != slots) channel.residuals.resize(slots);
  ticket->slot = ticket->message->header.sequence % slots;
  ticket->stateful = ticket->codec->NewState({1, 1}) != nullptr;
  ticket->stage = Ticket::Stage::kWaiting;
  ticket->message->coding = true;
  ticket->message->ready_bytes = 0;
  ticket->sampled = Sampled(ticket->key.rank);
  if (ticket->sampled) samples_.push_back(ticket);
  channel.uncoded.push_back(std::move(ticket));
  Start(channel);
}

void Encoder::AddCopies(std::shared_ptr<Ticket> ticket) {
  const auto begin = [](Ticket& one) {
    one.stage = Ticket::Stage::kCoding;
    one.message->coding = true;
    one.message->ready_bytes = 0;
  };
  begin(*ticket);
  for (const std::shared_ptr<Ticket>& copy : ticket->copies) begin(*copy);
  Give(nullptr, ticket);
}

bool Encoder::NextIsSampled(int dst) const {
  const auto at = static_cast<size_t>(dst);
  const int64_t before = at < encoded_frames_.size() ? encoded_frames_[at] : 0;
  return context_->options.nmse_every > 0 && before % context_->options.nmse_every == 0;
}

bool Encoder::Sampled(int dst) {
  if (context_->options.nmse_every <= 0) return false;
  const bool sampled = NextIsSampled(dst);
  encoded_frames_.resize(context_->peers.size());
  ++encoded_frames_[static_cast<size_t>(dst)];
  return sampled;
}

void Encoder::CountCrossed(int dst, const Crossing& crossing) {
  Sampled(dst);
  if (crossing.nmse) CountNmse(dst, crossing.header.tag, *crossing.codec, *crossing.nmse);
}

void Encoder::CountNmse(int dst, int tag, const Codec& codec, double nmse) {
  context_->counters.CountNmse(dst, codec.name(),
                               context_->coding.KindOf(context_->options.rank, dst, tag), nmse);
}

// A coder may work inside the call and change the list, so each search begins anew.
void Encoder::Start(SendChannel& channel) {
  for (;;) {
    auto& tickets = channel.uncoded;
    const auto ready = std::find_if(tickets.begin(), tickets.end(), [&](const auto& ticket) {
      if (ticket->stage != Ticket::Stage::kWaiting) return false;
      const auto sharing = [&](const auto& other) { return other->slot == ticket->slot; };
      const auto own = std::find(tickets.begin(), tickets.end(), ticket);
      return !ticket->stateful || std::none_of(tickets.begin(), own, sharing);
    });
    if (ready == tickets.end()) return;
    const std::shared_ptr<Ticket> ticket = *ready;
    ticket->stage = Ticket::Stage::kCoding;
    Give(&channel, ticket);
  }
}

void Encoder::Give(SendChannel* channel, const std::shared_ptr<Ticket>& ticket) {
  const PacketHeader& header = ticket->message->header;
  const Tensor x = CodecTensor(ticket->x, header);
  CodecState* state = nullptr;
  if (ticket->stateful) {
    std::unique_ptr<CodecState>& residual = channel->residuals[ticket->slot];
    if (residual == nullptr || residual->shape() != x.shape) {
      residual = ticket->codec->NewState(x.shape);
    }
    state = residual.get();
  }
  EncodeJob job{.codec = ticket->codec,
                .x = x,
                .after = ticket->x.after.get(),
                .seed = FrameSeed(context_->options.seed, header),
                .state = state,
                .raw_from = {},
                .inspect = {},
                .abandoned = [ticket] { return ticket->abandoned.load(std::memory_order_relaxed); },
                .update = {}};
  if (header.space == ChannelSpace::kCollective) {
    if (const auto call = ReadCall(header)) job.raw_from = RawFrom(*ticket->codec, call->type);
  }
  if (ticket->sampled || ticket->decoded != nullptr) {
    job.inspect = [ticket, state, node = context_->node](std::span<const std::byte> frame,
                                                         ConstTensor x) {
      if (ticket->decoded != nullptr) {
        ticket->decode_status =
            DecodeLikeReceiver(frame, state, {ticket->decoded, x.dtype, x.shape});
      }
      if (!ticket->sampled) return;
      const PooledBuffer scratch = node->pool().Acquire(x.shape.elements() * sizeof(float));
      const absl::StatusOr<double> nmse = FrameNmse(frame, x, state, scratch.bytes());
      if (nmse.ok()) ticket->nmse = *nmse;
    };
  }
  job.update = [this, owner = context_->owner.lock(), ticket, channel,
                held = context_->HoldNodeFor(ticket->x)](EncodeUpdate update) {
    context_->node->RunOnStrand([this, owner, ticket, channel, u = std::move(update)]() mutable {
      OnUpdate(channel, ticket, std::move(u));
    });
  };
  context_->CoderOf(ticket->x).Encode(std::move(job));
}

void Encoder::OnUpdate(SendChannel* channel, const std::shared_ptr<Ticket>& ticket,
                       EncodeUpdate update) {
  if (update.last && update.status.ok()) update.status = ticket->decode_status;
  if (update.raw && ticket->decoded != nullptr) {
    std::memmove(ticket->decoded, ticket->x.values, ticket->message->payload.size());
  }
  Take(update, *ticket);
  if (update.last && channel != nullptr) {
    std::erase(channel->uncoded, ticket);
    if (ticket->forget_state) ForgetState(*channel, *ticket);
    CountSamples();
  }
  changed_(ticket);
  // One after another: a callback may give the others up, who then wait for their own end here.
  for (const std::shared_ptr<Ticket>& copy : ticket->copies) {
    Take(update, *copy);
    changed_(copy);
  }
  if (update.last && channel != nullptr) Start(*channel);
}

void Encoder::Take(const EncodeUpdate& update, Ticket& ticket) {
  OutMessage& message = *ticket.message;
  if (update.frame) {
    message.header.codec = ticket.codec->id();
    message.header.flags = update.frame->order.empty() ? 0 : kPacketStreamed;
    message.header.message_bytes = update.frame->bytes.size();
    message.payload = update.frame->bytes;
    message.owner = update.frame->owner;
    message.order = update.frame->order;
  }
  if (update.status.ok()) message.ready_bytes = update.ready_bytes;
  ticket.encode_time = update.time;
  ticket.on_device = update.on_device;
  if (!update.last) return;
  ticket.stage = Ticket::Stage::kCoded;
  message.coding = false;
  if (ticket.failure.ok()) ticket.failure = update.status;
}

void Encoder::CountSamples() {
  while (!samples_.empty() && samples_.front()->stage == Ticket::Stage::kCoded) {
    const Ticket& ticket = *samples_.front();
    if (ticket.nmse) CountNmse(ticket.key.rank, ticket.key.tag, *ticket.codec, *ticket.nmse);
    samples_.pop_front();
  }
}

void Encoder::ForgetState(SendChannel& channel, const Ticket& ticket) {
  if (!ticket.stateful || channel.residuals.empty()) return;
  for (const std::shared_ptr<Ticket>& other : channel.uncoded) {
    if (other->slot != ticket.slot || other->stage != Ticket::Stage::kCoding) continue;
    other->forget_state = true;  // a coder holds the state now
    return;
  }
  auto* mirror = dynamic_cast<Mirror*>(channel.residuals[ticket.slot].get());
  if (mirror != nullptr) mirror->Reset();
}

}  // namespace longhaul
