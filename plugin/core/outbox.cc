#include "plugin/core/outbox.h"

#include <algorithm>
#include <utility>

#include "compressors/numbers/crc32c.h"

namespace longhaul {

// Lives from SendPacket until the transport gives it back.
struct Outbox::Packet : OutPacket {
  std::shared_ptr<OutMessage> message;
  int64_t bytes = 0;
};

Outbox::Outbox(Limits limits, TrafficCounters* traffic, std::function<void(absl::Status)> lost)
    : limits_(limits), traffic_(traffic), lost_(std::move(lost)) {}

Outbox::~Outbox() = default;

void Outbox::Submit(std::shared_ptr<OutMessage> message) {
  if (!failure_.ok()) return End(message, failure_);
  fresh_.push_back(std::move(message));
  Pump();
}

void Outbox::Continue(const std::shared_ptr<OutMessage>& message) {
  const auto found = std::find(unready_.begin(), unready_.end(), message);
  if (found != unready_.end() && NextBytes(*message) > 0) {
    unready_.erase(found);
    running_.push_back(message);
    Pump();
  }
  FinishIfDone(message);
}

// Nothing more of it goes; whoever still holds it lets go first.
void Outbox::End(const std::shared_ptr<OutMessage>& message, absl::Status why) {
  message->all_sent = true;
  if (message->failure.ok()) message->failure = std::move(why);
  FinishIfDone(message);
}

std::shared_ptr<OutMessage> Outbox::CancelNotice(const OutMessage& message,
                                                 const absl::Status& why) {
  auto notice = std::make_shared<OutMessage>();
  notice->header = message.header;
  notice->header.flags = kPacketCancelled;
  if (message.header.space == ChannelSpace::kCollective && absl::IsInvalidArgument(why)) {
    notice->header.flags |= kPacketMismatch;
  }
  notice->header.codec = 0;
  const auto text = std::make_shared<const std::string>(why.message());
  notice->header.message_bytes = text->size();
  notice->payload = std::as_bytes(std::span(text->data(), text->size()));
  notice->owner = text;
  notice->exempt = true;
  return notice;
}

void Outbox::SubmitCancelled(std::shared_ptr<OutMessage> message, absl::Status why) {
  std::shared_ptr<OutMessage> notice = CancelNotice(*message, why);
  // The message stays alive until then: its callback may look at it.
  notice->done = [this, message, why = std::move(why)](absl::Status) { End(message, why); };
  Submit(std::move(notice));
}

void Outbox::Cancel(const std::shared_ptr<OutMessage>& message, absl::Status why) {
  for (Queue* queue : {&fresh_, &running_, &unready_}) {
    const auto found = std::find(queue->begin(), queue->end(), message);
    if (found == queue->end()) continue;
    std::shared_ptr<OutMessage> notice = CancelNotice(*message, why);
    if (queue == &unready_) {
      unready_.erase(found);
      running_.push_back(std::move(notice));
    } else {
      *found = std::move(notice);
    }
    break;
  }
  End(message, std::move(why));
  Pump();
}

void Outbox::Exempt(absl::FunctionRef<bool(const PacketHeader&)> wanted) {
  for (Queue* queue : {&fresh_, &running_, &unready_}) {
    for (const std::shared_ptr<OutMessage>& message : *queue) {
      if (wanted(message->header)) message->exempt = true;
    }
  }
  Pump();
}

void Outbox::OnReleased(uint64_t cumulative_bytes) {
  // More than was sent cannot have been released: a lying peer gains nothing.
  released_ = std::max(released_, std::min(cumulative_bytes, sent_));
  Pump();
}

void Outbox::Fail(absl::Status why) {
  if (!failure_.ok()) return;
  failure_ = std::move(why);
  Queue all = std::move(fresh_);
  for (Queue* queue : {&running_, &unready_}) {
    for (std::shared_ptr<OutMessage>& message : *queue) all.push_back(std::move(message));
    queue->clear();
  }
  fresh_.clear();
  for (const std::shared_ptr<OutMessage>& message : all) End(message, failure_);
}

size_t Outbox::NextBytes(const OutMessage& message) const {
  const size_t ready = std::min(message.ready_bytes, message.payload.size());
  const size_t next = std::min(limits_.packet_payload_bytes, ready - message.sent_bytes);
  if (message.order.empty()) return next;
  return std::min(next, message.order[message.part].size() - message.part_bytes);
}

int64_t Outbox::WireBytes(size_t payload_bytes, const std::vector<FramePart>& order) const {
  const size_t most = limits_.packet_payload_bytes;
  size_t packets = order.empty() ? std::max<size_t>(1, (payload_bytes + most - 1) / most) : 0;
  for (const FramePart& part : order) packets += (part.size() + most - 1) / most;
  return static_cast<int64_t>(payload_bytes + packets * kPacketHeaderBytes);
}

// The bytes of the next packet; what follows then begins behind them.
std::span<const std::byte> Outbox::NextSlice(OutMessage& message) {
  const size_t bytes = NextBytes(message);
  if (message.order.empty()) return message.payload.subspan(message.sent_bytes, bytes);
  const FramePart& part = message.order[message.part];
  const auto slice = message.payload.subspan(part.begin + message.part_bytes, bytes);
  message.part_bytes += bytes;
  if (message.part_bytes == part.size()) {
    ++message.part;
    message.part_bytes = 0;
  }
  return slice;
}

bool Outbox::HasCredit(const OutMessage& message) const {
  const uint64_t next = kPacketHeaderBytes + NextBytes(message);
  return message.exempt || sent_ - released_ + next <= static_cast<uint64_t>(limits_.credit_bytes);
}

// Bulk and fresh messages take turns, so a small message waits for one packet of a bulk one at
// most.
void Outbox::Pump() {
  if (pumping_ || link_ == nullptr) return;
  pumping_ = true;
  while (failure_.ok() && in_flight_ == 0) {
    Queue& first = running_next_ ? running_ : fresh_;
    Queue& second = running_next_ ? fresh_ : running_;
    running_next_ = !running_next_;
    if (!SendOne(first) && !SendOne(second)) break;
  }
  pumping_ = false;
}

// Fresh messages are tried in order, so that first packets of a channel keep their order: only an
// exempt one may pass others that wait for credit (the exempt ones of a channel are its oldest).
bool Outbox::SendOne(Queue& queue) {
  auto chosen = queue.begin();
  if (chosen == queue.end()) return false;
  if (!HasCredit(**chosen)) {
    chosen = std::find_if(queue.begin(), queue.end(), [](const auto& m) { return m->exempt; });
    if (chosen == queue.end()) return false;
  }
  std::shared_ptr<OutMessage> message = std::move(*chosen);
  queue.erase(chosen);
  const size_t after = message->sent_bytes + NextBytes(*message);
  message->all_sent = after == message->payload.size();
  if (!message->all_sent && after < message->ready_bytes) {
    running_.push_back(message);
  } else if (!message->all_sent) {
    unready_.push_back(message);
  }
  SendPacket(message);
  return true;
}

void Outbox::SendPacket(const std::shared_ptr<OutMessage>& message) {
  std::unique_ptr<Packet> packet;
  if (spare_.empty()) {
    packet = std::make_unique<Packet>();
    packet->done = [this](OutPacket* out, absl::Status s) { OnPacketDone(out, std::move(s)); };
  } else {
    packet = std::move(spare_.back());
    spare_.pop_back();
  }
  PacketHeader& header = message->header;
  packet->payload = NextSlice(*message);
  message->crc = Crc32c(packet->payload, message->crc);
  header.offset = message->sent_bytes;
  header.payload_bytes = static_cast<uint32_t>(packet->payload.size());
  header.payload_crc = message->crc;
  WritePacketHeader(header, packet->header);
  message->sent_bytes += packet->payload.size();
  ++message->packets;
  ++message->in_flight;
  packet->message = message;
  packet->owner = message->owner;
  packet->bytes = static_cast<int64_t>(kPacketHeaderBytes + packet->payload.size());
  in_flight_ += packet->bytes;
  sent_ += static_cast<uint64_t>(packet->bytes);
  traffic_->sent_bytes.fetch_add(packet->bytes, std::memory_order_relaxed);
  if (message->all_sent) traffic_->sent_messages.fetch_add(1, std::memory_order_relaxed);
  Packet* raw = packet.release();  // the transport's until `done`
  const absl::StatusOr<SendState> state = link_->Send(Lane::kBulk, raw);
  if (!state.ok()) {
    OnPacketDone(raw, state.status());
  } else if (*state == SendState::kDone) {
    OnPacketDone(raw, absl::OkStatus());
  }
}

void Outbox::OnPacketDone(OutPacket* out, absl::Status status) {
  std::unique_ptr<Packet> packet(static_cast<Packet*>(out));
  const std::shared_ptr<OutMessage> message = std::move(packet->message);
  in_flight_ -= packet->bytes;
  --message->in_flight;
  packet->owner.reset();
  spare_.push_back(std::move(packet));
  if (!status.ok()) {
    if (message->failure.ok()) message->failure = status;
    lost_(status);  // fails everything queued, this message too when it is bulk
  }
  FinishIfDone(message);
  Pump();
}

void Outbox::FinishIfDone(const std::shared_ptr<OutMessage>& message) {
  if (!message->all_sent || message->in_flight > 0 || message->coding) return;
  const std::shared_ptr<const void> owner = std::move(message->owner);  // `done` may look at it
  message->done(message->failure);
}

}  // namespace longhaul
