#include "plugin/core/collectives.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "plugin/core/collective_op.h"

namespace longhaul {
class Collectives::AllGatherOp final : public Op {
 public:
  AllGatherOp(Collectives* owner, CollectiveKind kind, const WireTensor& in, const WireTensor& out,
              Group::Done done)
      : Op(owner, {.kind = kind, .type = in.type, .count = static_cast<uint64_t>(in.elements())},
           std::move(done)),
        in_(in),
        out_(out) {}

 private:
  bool Phase(int phase) override {
    if (phase > 0) return false;
    const auto count = static_cast<size_t>(in_.elements());
    for (int r = 0; r < size(); ++r) {
      const WireTensor place = Slice(out_, static_cast<size_t>(r) * count, count);
      if (r != rank()) {
        Recv(place, r);
        Send(in_, r);
      } else if (count > 0 && place.values != in_.values) {
        std::memmove(place.values, in_.values, count * BytesPerElement(in_.type));
      }
    }
    return true;
  }

  const WireTensor in_, out_;
};

class Collectives::AllGatherBytesOp final : public Op {
 public:
  AllGatherBytesOp(Collectives* owner, std::span<const std::byte> in, uint64_t most,
                   std::shared_ptr<Group::Gathered> out, Group::Done done)
      : Op(owner, {.kind = CollectiveKind::kAllGatherBytes}, std::move(done)),
        in_(in),
        most_(most),
        out_(std::move(out)) {}

 private:
  bool Phase(int phase) override {
    if (phase > 1) return false;
    if (phase == 0) {
      sizes_.resize(static_cast<size_t>(size()));
      own_size_ = in_.size();
    } else if (absl::Status s = CheckSizes(); !s.ok()) {
      Fail(std::move(s), Tell::kOthers);
      return false;
    }
    out_->resize(static_cast<size_t>(size()));
    for (int r = 0; r < size(); ++r) {
      uint64_t& bytes = sizes_[static_cast<size_t>(r)];
      std::vector<std::byte>& theirs = (*out_)[static_cast<size_t>(r)];
      if (r == rank()) {
        theirs.assign(in_.begin(), in_.end());
      } else if (phase == 0) {
        Recv({.values = &bytes, .type = ElementType::kU64, .dims = {1}}, r);
        Send({.values = &own_size_, .type = ElementType::kU64, .dims = {1}}, r);
      } else {
        theirs.resize(bytes);
        Recv(Bytes(theirs.data(), theirs.size()), r);
        Send(Bytes(const_cast<std::byte*>(in_.data()), in_.size()), r);  // is only read
      }
    }
    return true;
  }

  // Before anything is allocated for what they say.
  absl::Status CheckSizes() const {
    for (size_t r = 0; r < sizes_.size(); ++r) {
      if (sizes_[r] <= most_) continue;
      return absl::InvalidArgumentError(fmt::format(
          "rank {} brings {} bytes, at most {} are possible: its tensor has another dtype or "
          "other sizes",
          r, sizes_[r], most_));
    }
    return absl::OkStatus();
  }

  static WireTensor Bytes(std::byte* bytes, size_t count) {
    return {.values = bytes, .type = ElementType::kU8, .dims = {static_cast<int64_t>(count)}};
  }

  const std::span<const std::byte> in_;
  const uint64_t most_;
  const std::shared_ptr<Group::Gathered> out_;
  uint64_t own_size_ = 0;
  std::vector<uint64_t> sizes_;  // by rank
};

// Parts of no elements are sent too: a rank that expects some learns that there are none.
class Collectives::AllToAllOp final : public Op {
 public:
  AllToAllOp(Collectives* owner, const WireTensor& in, std::vector<int64_t> send_counts,
             const WireTensor& out, std::vector<int64_t> recv_counts, Group::Done done)
      : Op(owner, {.kind = CollectiveKind::kAllToAll, .type = in.type}, std::move(done)),
        in_(in),
        out_(out),
        send_counts_(std::move(send_counts)),
        recv_counts_(std::move(recv_counts)) {}

 private:
  bool Phase(int phase) override {
    if (phase > 0) {
      if (phase == 1) CheckGroup();
      return false;
    }
    size_t sent = 0, received = 0;
    for (int r = 0; r < size(); ++r) {
      const auto out_count = static_cast<size_t>(send_counts_[static_cast<size_t>(r)]);
      const auto in_count = static_cast<size_t>(recv_counts_[static_cast<size_t>(r)]);
      const WireTensor from = Slice(in_, sent, out_count), to = Slice(out_, received, in_count);
      sent += out_count;
      received += in_count;
      if (r != rank()) {
        Recv(to, r);
        Send(from, r);
      } else if (in_count > 0) {
        std::memcpy(to.values, from.values, in_count * BytesPerElement(in_.type));
      }
    }
    return true;
  }

  CollectiveCall CallTo(int dst) const override {
    CollectiveCall call = Op::CallTo(dst);
    call.expected = static_cast<uint64_t>(recv_counts_[static_cast<size_t>(dst)]);
    call.balance = OwnBalance();
    return call;
  }

  uint64_t OwnBalance() const {
    uint64_t balance = 0;
    for (int r = 0; r < size(); ++r) {
      balance += CountBalance(rank(), r, send_counts_[static_cast<size_t>(r)]);
      balance -= CountBalance(r, rank(), recv_counts_[static_cast<size_t>(r)]);
    }
    return balance;
  }

  absl::Status CheckPair(const PacketHeader& header, const CollectiveCall& theirs) override {
    const int peer = header.source_rank;
    balance_ += theirs.balance;
    const auto differ = [&](int from, uint64_t sent, int to, uint64_t expected) {
      return absl::InvalidArgumentError(
          fmt::format("alltoall of {}: rank {} sends {} elements to rank {}, which expects {}",
                      ToString(in_.type), from, sent, to, expected));
    };
    const auto sent = static_cast<uint64_t>(send_counts_[static_cast<size_t>(peer)]);
    if (theirs.expected != sent) return differ(rank(), sent, peer, theirs.expected);
    const auto expected = static_cast<uint64_t>(recv_counts_[static_cast<size_t>(peer)]);
    if (header.elements != expected) return differ(peer, header.elements, rank(), expected);
    return absl::OkStatus();
  }

  // Everybody was heard.
  void CheckGroup() {
    if (balance_ + OwnBalance() == 0) return;
    Fail(absl::InvalidArgumentError(fmt::format(
             "alltoall of {}: some of the other ranks do not send one another what is expected "
             "there; their errors name which",
             ToString(in_.type))),
         Tell::kNobody);
  }

  const WireTensor in_, out_;
  const std::vector<int64_t> send_counts_, recv_counts_;
  uint64_t balance_ = 0;  // of the others
};

// Nothing goes between the ranks but that they have come.
class Collectives::MonitoredBarrierOp final : public Op {
 public:
  MonitoredBarrierOp(Collectives* owner, bool name_all, Group::Done done)
      : Op(owner, {.kind = CollectiveKind::kMonitoredBarrier}, std::move(done)),
        name_all_(name_all) {}

 private:
  bool Phase(int phase) override {
    if (phase > 0) return false;
    for (int r = 0; r < size(); ++r) {
      if (r != rank()) ExchangeCalls(r);
    }
    return true;
  }

  // In the words of gloo's, which programs look for.
  std::string TimeoutText(const std::vector<int>& silent) const override {
    std::string who = RanksText(name_all_ || silent.empty() ? silent : std::vector{silent.front()});
    who.front() = 'R';
    return fmt::format("{} failed to pass monitoredBarrier in {} ms", who,
                       absl::ToInt64Milliseconds(timeout()));
  }

  const bool name_all_;
};

Collectives::Collectives(GroupContext* context, Sender* sender, Matcher* matcher)
    : context_(context), sender_(sender), matcher_(matcher) {}

Collectives::~Collectives() = default;

void Collectives::Start(std::shared_ptr<Op> op) { Start(std::move(op), context_->options.timeout); }

void Collectives::Start(std::shared_ptr<Op> op, absl::Duration timeout) {
  const int tag = next_tag_++;
  active_.emplace(tag, op);
  auto failed = failed_early_.extract(tag);
  const auto heard = heard_early_.extract(tag);
  op->Begin(tag, timeout, failed.empty() ? absl::OkStatus() : std::move(failed.mapped()),
            heard.empty() ? std::vector<PacketHeader>() : heard.mapped());
}

bool Collectives::Takes(const PacketHeader& header) {
  const bool first = header.sequence == 0 && header.offset == 0;
  const auto found = active_.find(header.tag);
  if (found == active_.end()) {
    if (header.tag < next_tag_) return false;  // over: it is late
    if (first) heard_early_[header.tag].push_back(header);
    return true;
  }
  const std::shared_ptr<Op> op = found->second;
  if (first) op->Hear(header);
  return !op->failed();
}

void Collectives::Finish(Op& op) {
  const std::shared_ptr<Op> self = op.shared_from_this();
  active_.erase(op.tag());
  for (int rank = 0; rank < context_->options.size; ++rank) {
    const ChannelKey key{rank, ChannelSpace::kCollective, op.tag()};
    matcher_->Forget(key);
    sender_->Forget(key);
  }
  self->RunDone();
}

void Collectives::OnPeerFailed(int rank, const PacketHeader& abort, std::string_view why) {
  absl::Status failure = absl::AbortedError(fmt::format("rank {} failed: {}", rank, why));
  if ((abort.flags & kPacketMismatch) != 0) failure = absl::InvalidArgumentError(std::string(why));
  if ((abort.flags & kPacketTimedOut) != 0) failure = absl::DeadlineExceededError(std::string(why));
  const auto found = active_.find(abort.tag);
  if (found != active_.end()) {
    const std::shared_ptr<Op> op = found->second;
    op->Fail(failure, Op::Tell::kNobody);
  } else if (abort.tag >= next_tag_) {
    failed_early_.emplace(abort.tag, failure);
  }
}

absl::Duration Collectives::Expire(absl::Duration now) {
  absl::Duration next = absl::InfiniteDuration();
  std::vector<std::shared_ptr<Op>> all;  // the ends of some may start or end others
  for (const auto& [tag, op] : active_) all.push_back(op);
  std::ranges::sort(all, {}, [](const auto& op) { return op->tag(); });  // the cause comes first
  for (const auto& op : all) next = std::min(next, op->Expire(now));
  return next;
}

void Collectives::AllGather(const WireTensor& in, const WireTensor& out, Group::Done done) {
  if (const Codec* codec = Codes(CollectiveKind::kAllGather, in, ReduceOp::kSum)) {
    return AllGatherEncoded(in, out, *codec, std::move(done));
  }
  Start(std::make_shared<AllGatherOp>(this, CollectiveKind::kAllGather, in, out, std::move(done)));
}

void Collectives::AllGatherBytes(std::span<const std::byte> in, uint64_t most,
                                 std::shared_ptr<Group::Gathered> out, Group::Done done) {
  Start(std::make_shared<AllGatherBytesOp>(this, in, most, std::move(out), std::move(done)));
}

void Collectives::AllToAll(const WireTensor& in, const std::vector<int64_t>& send_counts,
                           const WireTensor& out, const std::vector<int64_t>& recv_counts,
                           Group::Done done) {
  Start(std::make_shared<AllToAllOp>(this, in, send_counts, out, recv_counts, std::move(done)));
}

std::optional<LongWait> Collectives::Longest(absl::Duration now) const {
  std::optional<LongWait> longest;
  for (const auto& [tag, op] : active_) {
    std::optional<LongWait> wait = op->Waits(now);
    if (wait && (!longest || wait->deadline < longest->deadline)) longest = std::move(wait);
  }
  return longest;
}

void Collectives::Barrier(Group::Done done) {
  const WireTensor nothing{.values = nullptr, .type = ElementType::kU8, .dims = {0}};
  Start(std::make_shared<AllGatherOp>(this, CollectiveKind::kBarrier, nothing, nothing,
                                      std::move(done)));
}

void Collectives::MonitoredBarrier(absl::Duration timeout, bool name_all, Group::Done done) {
  Start(std::make_shared<MonitoredBarrierOp>(this, name_all, std::move(done)), timeout);
}

}  // namespace longhaul
