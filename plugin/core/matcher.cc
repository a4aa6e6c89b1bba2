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

// Only what is due next, with a receive for this rank alone and no message before it unfinished.
bool Matcher::Cross(Crossing& crossing) {
  const PacketHeader& header = crossing.header;
  const auto found = channels_.find({header.source_rank, header.space, header.tag});
  if (found == channels_.end()) return false;
  Channel& channel = *found->second;
  if (header.sequence != channel.next_sequence || channel.posted.empty() ||
      !channel.unmatched.empty() || !channel.incomplete.empty()) {
    return false;
  }
  const auto any = any_.find(header.tag);
  if (any != any_.end() && !any->second.empty()) return false;
  const std::shared_ptr<Receipt> receipt = channel.posted.front();
  if (!delivery_.Fill(crossing, *receipt)) return false;
  channel.posted.pop_front();
  ++channel.next_sequence;
  delivery_.Crossed(crossing, receipt);
  return true;
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

// How receives end that no message ends: late, cut off from their peer, given up.

std::string Matcher::Waiting::From() const {
  if (key.rank == kAnySource) return "any rank";
  std::string from = fmt::format("rank {}, sequence {}", key.rank, sequence);
  if (whole()) return from + " (whole)";
  if (arrival == nullptr) return from;
  return from + fmt::format(" ({} of {} bytes arrived)", arrival->received_bytes,
                            arrival->header.message_bytes);
}

std::vector<Matcher::Waiting> Matcher::WaitingOn(const ChannelKey& key) const {
  std::vector<Waiting> all;
  for (const std::shared_ptr<Arrival>& arrival : delivery_.Open(key)) {
    all.push_back({key, arrival->receipt, arrival, arrival->header.sequence});
  }
  const auto found = channels_.find(key);
  if (found == channels_.end()) return all;
  uint64_t sequence = found->second->next_sequence;
  for (const std::shared_ptr<Receipt>& receipt : found->second->posted) {
    all.push_back({key, receipt, nullptr, sequence++});
  }
  return all;
}

std::vector<Matcher::Waiting> Matcher::AllWaiting() const {
  std::vector<Waiting> all;
  for (const auto& [key, channel] : channels_) {
    std::vector<Waiting> some = WaitingOn(key);
    std::move(some.begin(), some.end(), std::back_inserter(all));
  }
  for (const auto& [tag, receipts] : any_) {
    for (const std::shared_ptr<Receipt>& receipt : receipts) {
      all.push_back({{kAnySource, ChannelSpace::kPointToPoint, tag}, receipt, nullptr, 0});
    }
  }
  return all;
}

absl::Duration Matcher::Expire(absl::Duration now) {
  absl::Duration next = absl::InfiniteDuration();
  const auto why = absl::DeadlineExceededError(fmt::format(
      "not complete within the timeout of {}", absl::FormatDuration(context_->options.timeout)));
  std::vector<Waiting> overdue;
  for (Waiting& waiting : AllWaiting()) {
    if (!waiting.receipt->open()) continue;
    if (waiting.receipt->deadline > now) {
      next = std::min(next, NextLook(waiting.receipt->deadline, context_->options.timeout, now));
    } else {
      overdue.push_back(std::move(waiting));
    }
  }
  for (const Waiting& waiting : overdue) {
    if (waiting.arrival != nullptr && !waiting.whole() && waiting.arrival->failure.ok()) {
      waiting.arrival->failure = absl::DeadlineExceededError("abandoned");
    }
    // One of a channel stays and takes its message away.
    if (waiting.key.rank == kAnySource) std::erase(any_[waiting.key.tag], waiting.receipt);
  }
  for (const Waiting& waiting : overdue) delivery_.Fail(waiting.receipt, waiting.From(), why);
  return next;
}

std::optional<LongWait> Matcher::Longest(absl::Duration now) const {
  std::optional<LongWait> longest;
  for (const Waiting& waiting : AllWaiting()) {
    const absl::Duration deadline = waiting.receipt->deadline;
    const bool of_one = waiting.key.space == ChannelSpace::kPointToPoint &&
                        waiting.key.rank != kAnySource && waiting.receipt->open();
    if (!of_one || NextLook(deadline, context_->options.timeout, now) != deadline) continue;
    if (longest && longest->deadline <= deadline) continue;
    longest = {waiting.key.rank, fmt::format("recv, tag {}", waiting.key.tag), deadline};
  }
  return longest;
}

// Whole messages that nobody has taken yet stay: they did arrive.
void Matcher::OnPeerGone(int rank) {
  const Peer& gone = *context_->peers[static_cast<size_t>(rank)];
  // One that left in good order takes nothing away from the others.
  const bool hopeless = gone.state() == Peer::State::kLost || !AnyUsable();
  std::vector<Waiting> failed;
  for (Waiting& waiting : AllWaiting()) {
    const bool lost = waiting.key.rank == rank || (waiting.key.rank == kAnySource && hopeless);
    if (lost && !waiting.whole()) failed.push_back(std::move(waiting));
  }
  if (hopeless) any_.clear();
  for (const auto& [key, channel] : channels_) {
    if (key.rank != rank) continue;
    channel->posted.clear();
    for (const std::shared_ptr<Arrival>& arrival : channel->incomplete) {
      delivery_.Drop(arrival, absl::UnavailableError("its sender is gone"));
      std::erase(channel->unmatched, arrival);
    }
    channel->incomplete.clear();
  }
  std::vector<ChannelKey> orphaned;
  for (const Waiting& waiting : failed) {
    delivery_.Fail(waiting.receipt, waiting.From(), gone.why());
    if (waiting.arrival != nullptr) orphaned.push_back(waiting.key);
  }
  for (const ChannelKey& key : orphaned) delivery_.FinishWaiting(key);
}

void Matcher::FailAll(const absl::Status& why) {
  const std::vector<Waiting> failed = AllWaiting();
  for (const auto& [key, channel] : channels_) {
    for (const std::shared_ptr<Arrival>& arrival : channel->unmatched) arrival->LetGo();
  }
  channels_.clear();
  delivery_.ForgetAll();
  any_.clear();
  for (const Waiting& waiting : failed) delivery_.Fail(waiting.receipt, waiting.From(), why);
}

void Matcher::FailChannel(const ChannelKey& key, const absl::Status& why) {
  const std::vector<Waiting> failed = WaitingOn(key);
  for (const Waiting& waiting : failed) {
    if (waiting.arrival != nullptr && waiting.arrival->failure.ok()) waiting.arrival->failure = why;
  }
  for (const Waiting& waiting : failed) delivery_.Complete(waiting.receipt, why);
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
  for (const std::shared_ptr<Arrival>& arrival : found->second->unmatched) arrival->LetGo();
  channels_.erase(found);
  delivery_.Forget(key);
}

bool Matcher::quiet() const {
  return delivery_.outstanding() == 0 && delivery_.quiet() &&
         std::ranges::all_of(channels_,
                             [](const auto& entry) { return entry.second->posted.empty(); });
}

std::map<ChannelKey, uint64_t> Matcher::sequences() const {
  std::map<ChannelKey, uint64_t> all;
  for (const auto& [key, channel] : channels_) {
    if (key.space != ChannelSpace::kPointToPoint) continue;
    all.emplace(key, channel->next_sequence - channel->unmatched.size());
  }
  return all;
}

void Matcher::Restore(const ChannelKey& key, uint64_t next, std::vector<FrameReceiver> receivers) {
  ChannelOf(key).next_sequence = next;
  delivery_.Restore(key, std::move(receivers));
}

}  // namespace longhaul
