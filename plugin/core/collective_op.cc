#include "plugin/core/collective_op.h"

#include <utility>

#include <fmt/format.h>

namespace longhaul {

void Collectives::Op::Begin(int tag, absl::Status failed_before) {
  tag_ = tag;
  failure_ = std::move(failed_before);
  Advance();
}

Group::Done Collectives::Op::Step() {
  ++steps_;
  return [this, self = shared_from_this()](absl::Status status) {
    --steps_;
    if (!status.ok()) Fail(std::move(status), Tell::kOthers);
    Advance();
  };
}

void Collectives::Op::Send(const WireTensor& x, int dst) {
  if (failure_.ok()) owner_->sender_->Send(x, dst, ChannelSpace::kCollective, tag_, Step());
}

void Collectives::Op::Recv(const WireTensor& x, int src) {
  if (failure_.ok()) owner_->matcher_->Receive(x, src, ChannelSpace::kCollective, tag_, Step());
}

void Collectives::Op::Advance() {
  while (!posting_ && steps_ == 0 && !ended_) {
    posting_ = true;
    const bool more = failure_.ok() && Phase(phase_++);
    posting_ = false;
    if (more) continue;
    if (steps_ > 0) return;
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
      fmt::format("{} (collective {}) on rank {} of group '{}': {}", name_, tag_, rank(),
                  owner_->context_->options.name, std::string(failure_.message()))));
}

}  // namespace longhaul
