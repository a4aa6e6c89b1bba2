#include "plugin/core/collective_op.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compressors/numbers/noise.h"

namespace longhaul {
namespace {

const WireTensor kNothing{.values = nullptr, .type = ElementType::kU8, .dims = {0}};

}  // namespace

WireTensor Slice(const WireTensor& x, size_t first, size_t count) {
  return {.values = static_cast<std::byte*>(x.values) + first * BytesPerElement(x.type),
          .type = x.type,
          .dims = {static_cast<int64_t>(count)}};
}

std::vector<size_t> EvenParts(size_t count, int parts) {
  const auto n = static_cast<size_t>(parts);
  std::vector<size_t> counts(n, count / n);
  for (size_t r = 0; r < count % n; ++r) ++counts[r];
  return counts;
}

uint64_t HashOfCounts(const std::vector<int64_t>& counts) {
  uint64_t hash = 0;
  for (const int64_t count : counts) hash = FoldSeed({hash, static_cast<uint64_t>(count)});
  return hash;
}

std::string RanksText(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

void Collectives::Op::Begin(int tag, absl::Duration timeout, absl::Status failed_before,
                            const std::vector<PacketHeader>& heard) {
  tag_ = tag;
  timeout_ = timeout;
  deadline_ = owner_->context_->NewDeadline(timeout);
  heard_.resize(static_cast<size_t>(size()));
  under_way_.resize(static_cast<size_t>(size()));
  failure_ = std::move(failed_before);
  for (const PacketHeader& header : heard) Hear(header);
  Advance();
}

void Collectives::Op::Hear(const PacketHeader& header) {
  const std::optional<CollectiveCall> theirs = ReadCall(header);
  if (!theirs) return;
  heard_[static_cast<size_t>(header.source_rank)] = true;
  if (failed()) return;
  if (theirs->Fits(call_)) {
    if (absl::Status s = CheckPair(header, *theirs); !s.ok()) Fail(std::move(s), Tell::kOthers);
    return;
  }
  const std::pair<int, std::string> a{rank(), ToString(call_)};
  const std::pair<int, std::string> b{header.source_rank, ToString(*theirs)};
  const auto& [low, high] = std::minmax(a, b);
  Fail(absl::InvalidArgumentError(
           fmt::format("the ranks of a group must call the same collectives in the same order; "
                       "rank {} calls {}, rank {} calls {}",
                       low.first, low.second, high.first, high.second)),
       Tell::kOthers);
}

CollectiveCall Collectives::Op::CallTo(int) const { return call_; }

absl::Status Collectives::Op::CheckPair(const PacketHeader& header, const CollectiveCall& theirs) {
  if (theirs.expected != call_.expected) {
    const int low = std::min(rank(), header.source_rank),
              high = std::max(rank(), header.source_rank);
    return absl::InvalidArgumentError(fmt::format(
        "ranks {} and {} cut the {} elements into different parts", low, high, theirs.count));
  }
  if (theirs.balance == call_.balance) return absl::OkStatus();
  const std::pair<int, std::string> a{rank(), CodingText(call_.balance)};
  const std::pair<int, std::string> b{header.source_rank, CodingText(theirs.balance)};
  const auto& [low, high] = std::minmax(a, b);
  return absl::InvalidArgumentError(
      fmt::format("the ranks of a group must have equal codecs, ways and sites of collectives, and "
                  "min_elements; {}: rank {} sends it {}, rank {} {}",
                  ToString(call_), low.first, low.second, high.first, high.second));
}

Group::Done Collectives::Op::Step(int& count, int peer, Direction direction, uint64_t bytes) {
  ++count;
  ++under_way_[static_cast<size_t>(peer)];
  const uint64_t entry = owner_->context_->history.Begin(
      peer, {.direction = direction, .what = NameOf(call_.kind), .tag = tag_, .bytes = bytes},
      owner_->context_->Now());
  return [this, &count, peer, entry, self = shared_from_this()](absl::Status status) {
    --count;
    --under_way_[static_cast<size_t>(peer)];
    owner_->context_->history.End(peer, entry, status.ok(), owner_->context_->Now());
    if (!status.ok()) Fail(std::move(status), Tell::kOthers);
    Advance();
  };
}

namespace {

uint64_t BytesOf(const WireTensor& x) {
  return static_cast<uint64_t>(x.elements()) * BytesPerElement(x.type);
}

}  // namespace

void Collectives::Op::Send(const WireTensor& x, int dst) {
  if (!failure_.ok()) return;
  owner_->sender_->Send(x, dst, CallTo(dst), tag_, Step(steps_, dst, Direction::kSent, BytesOf(x)));
}

void Collectives::Op::SendEncoded(const WireTensor& x, const Codec* codec, void* decoded,
                                  const std::vector<int>& dsts) {
  if (!failure_.ok() || dsts.empty()) return;
  std::vector<Sender::Target> targets;
  for (const int dst : dsts) {
    targets.push_back({dst, CallTo(dst), Step(steps_, dst, Direction::kSent, BytesOf(x))});
  }
  owner_->sender_->SendEncoded(x, codec, decoded, tag_, std::move(targets));
}

void Collectives::Op::Recv(const WireTensor& x, int src) {
  if (!failure_.ok()) return;
  owner_->matcher_->Receive(x, src, ChannelSpace::kCollective, tag_,
                            Step(steps_, src, Direction::kReceived, BytesOf(x)));
}

void Collectives::Op::SendCallOnly(int dst) {
  if (!failure_.ok()) return;
  owner_->sender_->Send(kNothing, dst, CallTo(dst), tag_,
                        Step(calls_only_, dst, Direction::kSent, 0));
}

void Collectives::Op::RecvCallOnly(int src) {
  if (!failure_.ok()) return;
  owner_->matcher_->Receive(kNothing, src, ChannelSpace::kCollective, tag_,
                            Step(calls_only_, src, Direction::kReceived, 0));
}

void Collectives::Op::Advance() {
  while (!posting_ && steps_ == 0 && !ended_) {
    posting_ = true;
    const bool more = failure_.ok() && Phase(phase_++);
    posting_ = false;
    if (more) continue;
    if (steps_ + calls_only_ > 0) return;
    ended_ = true;
    owner_->Finish(*this);
  }
}

absl::Duration Collectives::Op::Expire(absl::Duration now) {
  if (ended_ || failed()) return absl::InfiniteDuration();
  if (deadline_ > now) return NextLook(deadline_, timeout_, now);
  const std::vector<int> silent = Silent();
  const std::string why = silent.empty() ? "" : owner_->context_->WhyLate(silent.front());
  Fail(absl::DeadlineExceededError(TimeoutText(silent) + why), Tell::kOthers);
  return absl::InfiniteDuration();
}

std::vector<int> Collectives::Op::Silent() const {
  std::vector<int> silent;
  for (int r = 0; r < size(); ++r) {
    if (r != rank() && !heard(r) && SilentByItself(r)) silent.push_back(r);
  }
  return silent;
}

std::vector<int> Collectives::Op::Slow() const {
  std::vector<int> slow;
  for (int r = 0; r < size(); ++r) {
    if (under_way_[static_cast<size_t>(r)] > 0) slow.push_back(r);
  }
  return slow;
}

std::optional<LongWait> Collectives::Op::Waits(absl::Duration now) const {
  if (ended_ || !failure_.ok() || NextLook(deadline_, timeout_, now) != deadline_) return {};
  std::vector<int> others = Silent();
  if (others.empty()) others = Slow();
  if (others.empty()) return {};
  return LongWait{others.front(), fmt::format("{} {}", NameOf(call_.kind), tag_), deadline_};
}

std::string Collectives::Op::TimeoutText(const std::vector<int>& silent) const {
  const std::string limit = absl::FormatDuration(timeout_);
  if (!silent.empty()) {
    return fmt::format("{} did not come to it within the timeout of {}", RanksText(silent), limit);
  }
  return fmt::format(
      "all ranks came to it, but it was not complete within the timeout of {}: values to or from "
      "{} are still under way",
      limit, RanksText(Slow()));
}

void Collectives::Op::Fail(absl::Status why, Tell tell) {
  if (ended_ || !failure_.ok()) return;
  failure_ = std::move(why);
  GroupContext& context = *owner_->context_;
  const std::string reason(failure_.message());
  if (tell == Tell::kOthers) {
    PacketHeader header = context.Header(PacketKind::kGroupAbort);
    header.space = ChannelSpace::kCollective;
    header.tag = tag_;
    if (absl::IsInvalidArgument(failure_)) header.flags = kPacketMismatch;
    if (absl::IsDeadlineExceeded(failure_)) header.flags = kPacketTimedOut;
    for (Peer* peer : context.peers) {
      if (peer != nullptr) peer->SendControl(header, reason);
    }
  }
  const auto self = shared_from_this();
  ++steps_;  // the steps that come back now do not end it halfway through
  owner_->sender_->CancelChannels(ChannelSpace::kCollective, tag_, failure_);
  for (int rank = 0; rank < size(); ++rank) {
    owner_->matcher_->FailChannel({rank, ChannelSpace::kCollective, tag_}, failure_);
  }
  --steps_;
  Advance();
}

void Collectives::Op::RunDone() {
  if (failure_.ok()) return done_(absl::OkStatus());
  GroupContext& context = *owner_->context_;
  const std::string where =
      absl::IsDeadlineExceeded(failure_) ? context.history.Written(context.Now()) : "";
  done_(absl::Status(
      failure_.code(),
      fmt::format("{} (collective {}) on rank {} of group '{}': {}{}", NameOf(call_.kind), tag_,
                  rank(), context.options.name, std::string(failure_.message()), where)));
}

}  // namespace longhaul
