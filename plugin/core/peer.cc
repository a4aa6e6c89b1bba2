#include "plugin/core/peer.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "compressors/numbers/crc32c.h"

namespace longhaul {
namespace {

// A packet takes at most a quarter of the window: see Release().
size_t PacketPayloadBytes(int64_t credit_bytes) {
  return std::min(kPacketPayloadBytes, static_cast<size_t>(credit_bytes) / 4 - kPacketHeaderBytes);
}

struct ControlPacket : OutPacket {
  std::string text;
};

}  // namespace

Peer::Peer(NodeAddress address, int64_t window, TrafficCounters* traffic,
           std::function<void(Peer&, absl::Status)> lost)
    : address_(std::move(address)),
      window_(window),
      traffic_(traffic),
      lost_(std::move(lost)),
      outbox_({.credit_bytes = address_.credit_bytes,
               .packet_payload_bytes = PacketPayloadBytes(address_.credit_bytes)},
              traffic, [this](absl::Status why) { lost_(*this, std::move(why)); }) {}

void Peer::Open(std::unique_ptr<Link> link, uint64_t own_node_id) {
  link_ = std::move(link);
  own_node_id_ = own_node_id;
  outbox_.Open(link_.get());
}

std::string Peer::ToString() const { return fmt::format("node {:016x}", address_.node_id); }

void Peer::SetGone(State state, absl::Status why) {
  if (!usable()) return;
  state_ = state;
  why_ = std::move(why);
  outbox_.Fail(why_);
  if (link_ != nullptr) link_->Cut();
}

bool Peer::Cross(Crossing& crossing) {
  return usable() && link_ != nullptr && outbox_.empty() && link_->Cross(crossing);
}

void Peer::SendControl(PacketHeader header, std::string payload, Lane lane) {
  if (!usable() || link_ == nullptr) return;
  auto packet = std::make_unique<ControlPacket>();
  packet->text = std::move(payload);
  packet->payload = std::as_bytes(std::span(packet->text.data(), packet->text.size()));
  header.source_node = own_node_id_;
  header.payload_bytes = static_cast<uint32_t>(packet->text.size());
  header.message_bytes = packet->text.size();
  header.payload_crc = Crc32c(packet->payload);
  WritePacketHeader(header, packet->header);
  packet->done = [](OutPacket* out, absl::Status) { delete static_cast<ControlPacket*>(out); };
  traffic_->sent_messages.fetch_add(1, std::memory_order_relaxed);
  traffic_->sent_bytes.fetch_add(static_cast<int64_t>(kPacketHeaderBytes + packet->text.size()),
                                 std::memory_order_relaxed);
  ControlPacket* raw = packet.release();  // the transport's until `done`
  const absl::StatusOr<SendState> sent = link_->Send(lane, raw);
  if (sent.ok() && *sent == SendState::kPending) return;
  delete raw;
  if (!sent.ok()) lost_(*this, sent.status());
}

void Peer::SayGoodbye(uint16_t flags, const std::string& reason) {
  auto goodbye = std::make_shared<OutMessage>();
  goodbye->header = {.kind = PacketKind::kGoodbye, .flags = flags, .source_node = own_node_id_};
  goodbye->header.message_bytes = reason.size();
  const auto text = std::make_shared<const std::string>(reason);
  goodbye->payload = std::as_bytes(std::span(text->data(), text->size()));
  goodbye->owner = text;
  goodbye->exempt = true;
  outbox_.Submit(std::move(goodbye));
}

// Credit goes back in lots of a quarter of the window. No stall can come of it: not `starving`
// means at most half is held, less than a quarter unreported, so a packet (at most a quarter) still
// fits.
void Peer::Release(size_t bytes) {
  released_ += bytes;
  if (released_ - reported_ < static_cast<uint64_t>(window_) / 4) return;
  reported_ = released_;
  SendControl({.kind = PacketKind::kCredit, .sequence = released_});
}

}  // namespace longhaul
