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
      : Op(owner, "broadcast", std::move(done)), x_(x), root_(root) {}

 private:
  bool Phase(int phase) override {
    const int place = (rank() - root_ + size()) % size();  // in the tree; the root is 0
    const int parent_bit = place == 0 ? 1 << 30 : place & -place;
    if (phase == 0) {
      if (place != 0) Recv(x_, (place - parent_bit + root_) % size());
      return true;
    }
    if (phase > 1) return false;
    int bit = 1;
    while (bit < parent_bit && place + bit < size()) bit <<= 1;
    for (bit >>= 1; bit > 0; bit >>= 1) {
      if (place + bit < size()) Send(x_, (place + bit + root_) % size());
    }
    return true;
  }

  const WireTensor x_;
  const int root_;
};

class Collectives::AllGatherOp final : public Op {
 public:
  AllGatherOp(Collectives* owner, std::string name, const WireTensor& in, const WireTensor& out,
              Group::Done done)
      : Op(owner, std::move(name), std::move(done)), in_(in), out_(out) {}

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
      : Op(owner, "alltoall", std::move(done)),
        in_(in),
        out_(out),
        send_counts_(std::move(send_counts)),
        recv_counts_(std::move(recv_counts)) {}

 private:
  bool Phase(int phase) override {
    if (phase > 0) return false;
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

  const WireTensor in_, out_;
  const std::vector<int64_t> send_counts_, recv_counts_;
};

class Collectives::AllReduceOp final : public Op {
 public:
  AllReduceOp(Collectives* owner, const WireTensor& x, ReduceOp op, Group::Done done)
      : Op(owner, "allreduce", std::move(done)), x_(x), op_(op) {}

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
  const auto failed = failed_early_.extract(tag);
  op->Begin(tag, failed.empty() ? absl::OkStatus() : absl::AbortedError(failed.mapped()));
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

void Collectives::OnPeerFailed(int rank, int tag, std::string_view why) {
  const std::string reason = fmt::format("rank {} failed: {}", rank, why);
  const auto found = active_.find(tag);
  if (found != active_.end()) {
    const std::shared_ptr<Op> op = found->second;
    op->Fail(absl::AbortedError(reason), Op::Tell::kNobody);
  } else if (tag >= next_tag_) {
    failed_early_.emplace(tag, reason);
  }
}

void Collectives::Broadcast(const WireTensor& x, int root, Group::Done done) {
  Start(std::make_shared<BroadcastOp>(this, x, root, std::move(done)));
}

void Collectives::AllReduce(const WireTensor& x, ReduceOp op, Group::Done done) {
  Start(std::make_shared<AllReduceOp>(this, x, op, std::move(done)));
}

void Collectives::AllGather(const WireTensor& in, const WireTensor& out, Group::Done done) {
  Start(std::make_shared<AllGatherOp>(this, "allgather", in, out, std::move(done)));
}

void Collectives::AllToAll(const WireTensor& in, const std::vector<int64_t>& send_counts,
                           const WireTensor& out, const std::vector<int64_t>& recv_counts,
                           Group::Done done) {
  Start(std::make_shared<AllToAllOp>(this, in, send_counts, out, recv_counts, std::move(done)));
}

void Collectives::Barrier(Group::Done done) {
  const WireTensor nothing{.values = nullptr, .type = ElementType::kU8, .dims = {0}};
  Start(std::make_shared<AllGatherOp>(this, "barrier", nothing, nothing, std::move(done)));
}

}  // namespace longhaul
