// How receives end that no message ends: late, cut off from their peer, given up.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "plugin/core/matcher.h"

namespace longhaul {

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
