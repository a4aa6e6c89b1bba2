#include "plugin/core/matcher.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace longhaul {

Matcher::Channel& Matcher::ChannelOf(const ChannelKey& key) {
  std::unique_ptr<Channel>& channel = channels_[key];
  if (channel == nullptr) channel = std::make_unique<Channel>();
  return *channel;
}

std::shared_ptr<Receipt> Matcher::NewReceipt(const WireTensor& x, ChannelSpace space, int tag,
                                             Group::DoneFrom done) {
  delivery_.Opened();
  return std::make_shared<Receipt>(Receipt{.x = x,
                                           .space = space,
                                           .tag = tag,
                                           .stamp = next_stamp_++,
                                           .deadline = context_->DeadlineIn(space),
                                           .done = std::move(done),
                                           .ended = {}});
}

void Matcher::Receive(const WireTensor& x, int src, ChannelSpace space, int tag, Group::Done done) {
  const ChannelKey key{src, space, tag};
  Channel& channel = ChannelOf(key);
  std::shared_ptr<Receipt> receipt = NewReceipt(
      x, space, tag, [done = std::move(done)](absl::StatusOr<int> from) { done(from.status()); });
  Peer& peer = *context_->peers[static_cast<size_t>(src)];
  if (channel.unmatched.empty() && !peer.usable()) {
    const Waiting waiting{key, receipt, nullptr, channel.next_sequence};
    return delivery_.Fail(receipt, waiting.From(), peer.why());
  }
  channel.posted.push_back(std::move(receipt));
  if (peer.starving()) SendWant(key, channel);
  MatchChannel(key);
}

void Matcher::ReceiveAny(const WireTensor& x, int tag, Group::DoneFrom done) {
  const std::shared_ptr<Receipt> receipt =
      NewReceipt(x, ChannelSpace::kPointToPoint, tag, std::move(done));
  any_[tag].push_back(receipt);
  while (MatchAny(tag)) {
  }
  if (std::find(any_[tag].begin(), any_[tag].end(), receipt) == any_[tag].end()) return;
  for (size_t rank = 0; rank < context_->peers.size(); ++rank) {
    Peer* const peer = context_->peers[rank];
    if (peer == nullptr) continue;
    if (peer->state() == Peer::State::kLost || !AnyUsable()) {
      std::erase(any_[tag], receipt);
      return delivery_.Fail(receipt, "any rank", peer->why());
    }
    if (!peer->usable()) continue;
    const ChannelKey key{static_cast<int>(rank), ChannelSpace::kPointToPoint, tag};
    if (peer->starving()) SendWant(key, ChannelOf(key));
  }
}

bool Matcher::AnyUsable() const {
  return std::any_of(context_->peers.begin(), context_->peers.end(),
                     [](const Peer* peer) { return peer != nullptr && peer->usable(); });
}

void Matcher::OnData(Peer& peer, const PacketHeader& header, ArrivedPayload& payload) {
  const ChannelKey key{header.source_rank, header.space, header.tag};
  const size_t wire_bytes = kPacketHeaderBytes + header.payload_bytes;
  Channel& channel = ChannelOf(key);
  const auto known = std::find_if(
      channel.incomplete.begin(), channel.incomplete.end(),
      [&](const auto& arrival) { return arrival->header.sequence == header.sequence; });
  const std::shared_ptr<Arrival> arrival =
      known != channel.incomplete.end() ? *known : Begin(channel, peer, header);
  if (arrival == nullptr) return;
  arrival->Account(header, payload.bytes());
  if (arrival->complete) {
    arrival->completion = next_completion_++;
    if (context_->watch) arrival->completed_at = context_->Now();
    std::erase(channel.incomplete, arrival);
  }
  if (arrival->receipt == nullptr && channel.unmatched.front() == arrival) {
    if (std::shared_ptr<Receipt> receipt = PickReceipt(channel, *arrival)) {
      channel.unmatched.pop_front();
      Pair(arrival, std::move(receipt));
    }
  }
  if (!arrival->failure.ok()) arrival->LetGo();
  if (arrival->receipt != nullptr || !arrival->failure.ok()) {
    delivery_.Take(arrival, payload.bytes(), header.offset);
    peer.Release(wire_bytes);
  } else {
    arrival->Hold(payload.Keep());
    if (peer.starving()) context_->node->Starving(peer);
  }
  if (arrival->complete && arrival->receipt != nullptr) delivery_.Finish(arrival);
  MatchChannel(key);
}

std::shared_ptr<Arrival> Matcher::Begin(Channel& channel, Peer& peer, const PacketHeader& header) {
  if (header.sequence != channel.next_sequence || header.offset != 0) {
    peer.Release(kPacketHeaderBytes + header.payload_bytes);
    context_->node->Lose(
        peer, absl::DataLossError(fmt::format(
                  "group '{}', {}: message {} (byte {}) came where {} was due: one went missing",
                  context_->options.name, ToString(header.space, header.tag), header.sequence,
                  header.offset, channel.next_sequence)));
    return nullptr;
  }
  ++channel.next_sequence;
  auto arrival = std::make_shared<Arrival>(&peer, header);
  channel.unmatched.push_back(arrival);
  channel.incomplete.push_back(arrival);
  return arrival;
}

// An any-source receive takes whole messages, so that one slow source does not keep it from the
// others; but a message too big for the credit becomes whole only once a receive has taken it.
bool Matcher::Eligible(const Arrival& arrival) const {
  const auto window = static_cast<uint64_t>(context_->node->options().credit_bytes);
  return arrival.complete || arrival.header.message_bytes > window / 4;
}

std::shared_ptr<Receipt> Matcher::PickReceipt(Channel& channel, const Arrival& arrival) {
  const auto any = arrival.header.space == ChannelSpace::kPointToPoint && Eligible(arrival)
                       ? any_.find(arrival.header.tag)
                       : any_.end();
  std::deque<std::shared_ptr<Receipt>>* queue = &channel.posted;
  if (any != any_.end() && !any->second.empty() &&
      (queue->empty() || any->second.front()->stamp < queue->front()->stamp)) {
    queue = &any->second;
  }
  if (queue->empty()) return nullptr;
  std::shared_ptr<Receipt> receipt = std::move(queue->front());
  queue->pop_front();
  return receipt;
}

void Matcher::Pair(const std::shared_ptr<Arrival>& arrival, std::shared_ptr<Receipt> receipt) {
  delivery_.Bind(arrival, std::move(receipt));
  if (arrival->complete || !arrival->peer->starving()) return;
  const ChannelKey key = KeyOf(*arrival);
  SendWant(key, ChannelOf(key));
}

// Completions may forget the channel, so it is looked up anew each time.
void Matcher::MatchChannel(const ChannelKey& key) {
  for (;;) {
    const auto found = channels_.find(key);
    if (found == channels_.end() || found->second->unmatched.empty()) return;
    Channel& channel = *found->second;
    const std::shared_ptr<Arrival> arrival = channel.unmatched.front();
    std::shared_ptr<Receipt> receipt = PickReceipt(channel, *arrival);
    if (receipt == nullptr) return;
    channel.unmatched.pop_front();
    Pair(arrival, std::move(receipt));
    if (arrival->complete) delivery_.Finish(arrival);
  }
}

bool Matcher::MatchAny(int tag) {
  if (any_[tag].empty()) return false;
  Channel* best = nullptr;
  const auto rank_of = [](const Arrival& a) { return a.complete ? a.completion : UINT64_MAX; };
  for (size_t rank = 0; rank < context_->peers.size(); ++rank) {
    const auto found = channels_.find({static_cast<int>(rank), ChannelSpace::kPointToPoint, tag});
    if (found == channels_.end() || found->second->unmatched.empty()) continue;
    const Arrival& front = *found->second->unmatched.front();
    if (!Eligible(front)) continue;
    if (best == nullptr || rank_of(front) < rank_of(*best->unmatched.front())) {
      best = found->second.get();
    }
  }
  if (best == nullptr) return false;
  const std::shared_ptr<Arrival> arrival = best->unmatched.front();
  best->unmatched.pop_front();
  std::shared_ptr<Receipt> receipt = any_[tag].front();
  any_[tag].pop_front();
  Pair(arrival, std::move(receipt));
  if (arrival->complete) delivery_.Finish(arrival);
  return true;
}

}  // namespace longhaul
