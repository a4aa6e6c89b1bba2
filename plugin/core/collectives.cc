#include "plugin/core/collectives.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "plugin/core/collective_op.h"
#include "plugin/core/reduce.h"

namespace longhaul {
namespace {

constexpr size_t kSmallAllReduceBytes = 8 << 10;

// Elements [first, first + count) of x, flat.
WireTensor Slice(const WireTensor& x, size_t first, size_t count) {
  return {.values = static_cast<std::byte*>(x.values) + first * BytesPerElement(x.type),
          .type = x.type,
          .dims = {static_cast<int64_t>(count)}};
}

}  // namespace

class Collectives::BroadcastOp final : public Op {
 public:
  BroadcastOp(Collectives* owner, const WireTensor& x, int root, Group::Done done)
      : Op(owner,
           {.kind = CollectiveKind::kBroadcast,
            .type = x.type,
            .root = root,
            .count = static_cast<uint64_t>(x.elements())},
           std::move(done)),
        x_(x),
        root_(root) {}

 private:
  bool Phase(int phase) override {
    if (phase > 1) return false;
    if (phase == 0) {
      if (place() != 0) Recv(x_, RankAt(place() - parent_bit()));
      for (int r = 0; r < size(); ++r) {
        if (r == rank()) continue;
        if (!IsChild(r)) SendCallOnly(r);
        if (place() == 0 || r != RankAt(place() - parent_bit())) RecvCallOnly(r);
      }
      return true;
    }
    for (int bit = 1 << 30; bit > 0; bit >>= 1) {  // the largest subtree first
      if (bit < parent_bit() && place() + bit < size()) Send(x_, RankAt(place() + bit));
    }
    return true;
  }

  // In the tree, whose root is at 0. The children of place p are p + 1, p + 2, p + 4, ... below the
  // lowest bit of p.
  int place() const { return (rank() - root_ + size()) % size(); }
  int parent_bit() const { return place() == 0 ? 1 << 30 : place() & -place(); }
  int RankAt(int place) const { return (place + root_) % size(); }
  bool IsChild(int r) const {
    const int below = (r - root_ + size()) % size() - place();
    return below > 0 && below < parent_bit() && (below & (below - 1)) == 0;
  }

  const WireTensor x_;
  const int root_;
};

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

class Collectives::AllReduceOp final : public Op {
 public:
  AllReduceOp(Collectives* owner, const WireTensor& x, ReduceOp op, Group::Done done)
      : Op(owner,
           {.kind = CollectiveKind::kAllReduce,
            .operation = op,
            .type = x.type,
            .count = static_cast<uint64_t>(x.elements())},
           std::move(done)),
        x_(x),
        op_(op) {}

 private:
  bool Phase(int phase) override {
    const auto count = static_cast<size_t>(x_.elements());
    if (phase == 0) {
      whole_ = count * BytesPerElement(x_.type) <= kSmallAllReduceBytes;
      Exchange();
      return true;
    }
    if (phase == 1) {
      // Only now: everything that reads this rank's values has been sent.
      std::vector<const std::byte*> sources;
      for (int r = 0; r < size(); ++r) {
        const std::byte* own = static_cast<std::byte*>(Part(rank()).values);
        sources.push_back(r == rank() ? own : parts_[static_cast<size_t>(r)].bytes().data());
      }
      ReduceInOrder(x_.type, op_, sources, PartCount(rank()),
                    static_cast<std::byte*>(Part(rank()).values));
      parts_.clear();
      for (int r = 0; r < size() && !whole_; ++r) {
        if (r == rank()) continue;
        Recv(Part(r), r);
        Send(Part(rank()), r);
      }
      return true;
    }
    return false;
  }

  // Everybody gets everybody's contribution to the part that it adds up.
  void Exchange() {
    parts_.resize(static_cast<size_t>(size()));
    const size_t bytes = PartCount(rank()) * BytesPerElement(x_.type);
    for (int r = 0; r < size(); ++r) {
      if (r == rank()) continue;
      PooledBuffer& part = parts_[static_cast<size_t>(r)];
      part = pool().Acquire(bytes);
      Recv({.values = part.bytes().data(),
            .type = x_.type,
            .dims = {static_cast<int64_t>(PartCount(rank()))}},
           r);
      Send(Part(r), r);
    }
  }

  size_t PartCount(int r) const {
    const auto count = static_cast<size_t>(x_.elements()), n = static_cast<size_t>(size());
    if (whole_) return count;
    return count / n + (static_cast<size_t>(r) < count % n ? 1 : 0);
  }
  WireTensor Part(int r) const {
    const auto count = static_cast<size_t>(x_.elements()), n = static_cast<size_t>(size());
    if (whole_) return Slice(x_, 0, count);
    const auto part = static_cast<size_t>(r);
    return Slice(x_, part * (count / n) + std::min(part, count % n), PartCount(r));
  }

  const WireTensor x_;
  const ReduceOp op_;
  bool whole_ = false;  // every rank adds up everything
  std::vector<PooledBuffer> parts_;
};

Collectives::Collectives(GroupContext* context, Sender* sender, Matcher* matcher)
    : context_(context), sender_(sender), matcher_(matcher) {}

Collectives::~Collectives() = default;

void Collectives::Start(std::shared_ptr<Op> op) {
  const int tag = next_tag_++;
  active_.emplace(tag, op);
  auto failed = failed_early_.extract(tag);
  const auto heard = heard_early_.extract(tag);
  op->Begin(tag, failed.empty() ? absl::OkStatus() : std::move(failed.mapped()),
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
  const absl::Status failure =
      (abort.flags & kPacketMismatch) != 0
          ? absl::InvalidArgumentError(std::string(why))
          : absl::AbortedError(fmt::format("rank {} failed: {}", rank, why));
  const auto found = active_.find(abort.tag);
  if (found != active_.end()) {
    const std::shared_ptr<Op> op = found->second;
    op->Fail(failure, Op::Tell::kNobody);
  } else if (abort.tag >= next_tag_) {
    failed_early_.emplace(abort.tag, failure);
  }
}

void Collectives::Broadcast(const WireTensor& x, int root, Group::Done done) {
  Start(std::make_shared<BroadcastOp>(this, x, root, std::move(done)));
}

void Collectives::AllReduce(const WireTensor& x, ReduceOp op, Group::Done done) {
  Start(std::make_shared<AllReduceOp>(this, x, op, std::move(done)));
}

void Collectives::AllGather(const WireTensor& in, const WireTensor& out, Group::Done done) {
  Start(std::make_shared<AllGatherOp>(this, CollectiveKind::kAllGather, in, out, std::move(done)));
}

void Collectives::AllToAll(const WireTensor& in, const std::vector<int64_t>& send_counts,
                           const WireTensor& out, const std::vector<int64_t>& recv_counts,
                           Group::Done done) {
  Start(std::make_shared<AllToAllOp>(this, in, send_counts, out, recv_counts, std::move(done)));
}

void Collectives::Barrier(Group::Done done) {
  const WireTensor nothing{.values = nullptr, .type = ElementType::kU8, .dims = {0}};
  Start(std::make_shared<AllGatherOp>(this, CollectiveKind::kBarrier, nothing, nothing,
                                      std::move(done)));
}

}  // namespace longhaul
