#include "plugin/core/collective_op.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace longhaul {
namespace {

const WireTensor kNothing{.values = nullptr, .type = ElementType::kU8, .dims = {0}};

}  // namespace

void Collectives::Op::Begin(int tag, absl::Status failed_before,
                            const std::vector<PacketHeader>& heard) {
  tag_ = tag;
  failure_ = std::move(failed_before);
  for (const PacketHeader& header : heard) Hear(header);
  Advance();
}

void Collectives::Op::Hear(const PacketHeader& header) {
  const std::optional<CollectiveCall> theirs = ReadCall(header);
  if (failed() || !theirs) return;
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

absl::Status Collectives::Op::CheckPair(const PacketHeader&, const CollectiveCall&) {
  return absl::OkStatus();
}

Group::Done Collectives::Op::Step(int& count) {
  ++count;
  return [this, &count, self = shared_from_this()](absl::Status status) {
    --count;
    if (!status.ok()) Fail(std::move(status), Tell::kOthers);
    Advance();
  };
}

void Collectives::Op::Send(const WireTensor& x, int dst) {
  if (failure_.ok()) owner_->sender_->Send(x, dst, CallTo(dst), tag_, Step(steps_));
}

void Collectives::Op::Recv(const WireTensor& x, int src) {
  if (!failure_.ok()) return;
  owner_->matcher_->Receive(x, src, ChannelSpace::kCollective, tag_, Step(steps_));
}

void Collectives::Op::SendCallOnly(int dst) {
  if (failure_.ok()) owner_->sender_->Send(kNothing, dst, CallTo(dst), tag_, Step(calls_only_));
}

void Collectives::Op::RecvCallOnly(int src) {
  if (!failure_.ok()) return;
  owner_->matcher_->Receive(kNothing, src, ChannelSpace::kCollective, tag_, Step(calls_only_));
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
  done_(absl::Status(
      failure_.code(),
      fmt::format("{} (collective {}) on rank {} of group '{}': {}", NameOf(call_.kind), tag_,
                  rank(), owner_->context_->options.name, std::string(failure_.message()))));
}

}  // namespace longhaul
