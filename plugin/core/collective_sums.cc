// Collectives that add up: all of them have each rank add up one part, in rank order.
#include <algorithm>
#include <utility>

#include "plugin/core/collective_op.h"
#include "plugin/core/reduce.h"

namespace longhaul {
namespace {

constexpr size_t kSmallBytes = 8 << 10;  // one delay is worth more than the bytes that it costs

bool Small(const WireTensor& x) {
  return static_cast<size_t>(x.elements()) * BytesPerElement(x.type) <= kSmallBytes;
}

}  // namespace

// Rank r adds up the r-th part of x, `counts[r]` elements behind those of the ranks before.
class Collectives::SumOp : public Op {
 protected:
  SumOp(Collectives* owner, const CollectiveCall& call, const WireTensor& x, Group::Done done)
      : Op(owner, call, std::move(done)), x_(x), op_(call.operation) {}

  // Once, in phase 0. Parts of no elements are sent too: everybody hears from everybody.
  void Exchange(const std::vector<size_t>& counts) {
    size_t first = 0;
    for (const size_t count : counts) {
      parts_.push_back(Slice(x_, first, count));
      first += count;
    }
    Exchange();
  }
  // Every rank adds up everything.
  void ExchangeWholes() {
    parts_.assign(static_cast<size_t>(size()), Slice(x_, 0, static_cast<size_t>(x_.elements())));
    Exchange();
  }

  // In the phase after: by then all that reads this rank's values has been sent, so `out` may lie
  // in x.
  void AddUp(void* out) {
    std::vector<const std::byte*> sources;
    for (int r = 0; r < size(); ++r) {
      const auto* own = static_cast<const std::byte*>(Part(rank()).values);
      sources.push_back(r == rank() ? own : received_[static_cast<size_t>(r)].bytes().data());
    }
    ReduceInOrder(x_.type, op_, sources, static_cast<size_t>(Part(rank()).elements()),
                  static_cast<std::byte*>(out));
    received_.clear();
  }

  const WireTensor& Part(int r) const { return parts_[static_cast<size_t>(r)]; }
  const WireTensor& x() const { return x_; }
  size_t OwnBytes() const {
    return static_cast<size_t>(Part(rank()).elements()) * BytesPerElement(x_.type);
  }

 private:
  void Exchange() {
    received_.resize(static_cast<size_t>(size()));
    for (int r = 0; r < size(); ++r) {
      if (r == rank()) continue;
      PooledBuffer& buffer = received_[static_cast<size_t>(r)];
      buffer = pool().Acquire(OwnBytes());
      WireTensor mine = Part(rank());
      mine.values = buffer.bytes().data();
      Recv(mine, r);
      Send(Part(r), r);
    }
  }

  const WireTensor x_;
  const ReduceOp op_;
  std::vector<WireTensor> parts_;       // of x, by rank
  std::vector<PooledBuffer> received_;  // by rank: its values of this rank's part
};

class Collectives::AllReduceOp final : public SumOp {
 public:
  AllReduceOp(Collectives* owner, const WireTensor& x, ReduceOp op, Group::Done done)
      : SumOp(owner,
              {.kind = CollectiveKind::kAllReduce,
               .operation = op,
               .type = x.type,
               .count = static_cast<uint64_t>(x.elements())},
              x, std::move(done)) {}

 private:
  bool Phase(int phase) override {
    if (phase == 0) {
      if (Small(x())) {
        ExchangeWholes();
      } else {
        Exchange(EvenParts(static_cast<size_t>(x().elements()), size()));
      }
      return true;
    }
    if (phase > 1) return false;
    AddUp(Part(rank()).values);
    for (int r = 0; r < size() && !Small(x()); ++r) {
      if (r == rank()) continue;
      Recv(Part(r), r);
      Send(Part(rank()), r);
    }
    return true;
  }
};

class Collectives::ReduceScatterOp final : public SumOp {
 public:
  ReduceScatterOp(Collectives* owner, const WireTensor& in, const std::vector<int64_t>& counts,
                  const WireTensor& out, ReduceOp op, Group::Done done)
      : SumOp(owner,
              {.kind = CollectiveKind::kReduceScatter,
               .operation = op,
               .type = in.type,
               .count = static_cast<uint64_t>(in.elements()),
               .expected = HashOfCounts(counts)},
              in, std::move(done)),
        counts_(counts.begin(), counts.end()),
        out_(out) {}

 private:
  bool Phase(int phase) override {
    if (phase == 0) {
      Exchange(counts_);
      return true;
    }
    if (phase == 1) AddUp(out_.values);
    return false;
  }

  const std::vector<size_t> counts_;
  const WireTensor out_;
};

// Two ways: the root adds up all; or everybody adds up a part, so that the root, whose link all of
// it must pass, gets less than twice the tensor instead of n - 1 of them.
class Collectives::ReduceToRootOp final : public SumOp {
 public:
  ReduceToRootOp(Collectives* owner, const WireTensor& x, int root, ReduceOp op, Group::Done done)
      : SumOp(owner,
              {.kind = CollectiveKind::kReduce,
               .operation = op,
               .type = x.type,
               .root = root,
               .count = static_cast<uint64_t>(x.elements())},
              x, std::move(done)),
        root_(root) {}

 private:
  bool Phase(int phase) override {
    const auto count = static_cast<size_t>(x().elements());
    if (phase == 0) {
      in_parts_ = !Small(x()) && size() > 2;
      std::vector<size_t> counts(static_cast<size_t>(size()));
      counts[static_cast<size_t>(root_)] = count;
      Exchange(in_parts_ ? EvenParts(count, size()) : counts);
      return true;
    }
    if (phase > 1) return false;
    if (rank() == root_) {
      AddUp(Part(rank()).values);
      for (int r = 0; r < size() && in_parts_; ++r) {
        if (r != rank()) Recv(Part(r), r);
      }
    } else if (in_parts_) {
      sum_ = pool().Acquire(OwnBytes());  // the tensors of the others stay as they are
      AddUp(sum_.bytes().data());
      WireTensor part = Part(rank());
      part.values = sum_.bytes().data();
      Send(part, root_);
    }
    return true;
  }

  const int root_;
  bool in_parts_ = false;
  PooledBuffer sum_;
};

void Collectives::AllReduce(const WireTensor& x, ReduceOp op, Group::Done done) {
  if (const Codec* codec = Codes(CollectiveKind::kAllReduce, x, op)) {
    return AllReduceEncoded(x, op, *codec, std::move(done));
  }
  Start(std::make_shared<AllReduceOp>(this, x, op, std::move(done)));
}

void Collectives::ReduceScatter(const WireTensor& in, const std::vector<int64_t>& counts,
                                const WireTensor& out, ReduceOp op, Group::Done done) {
  if (const Codec* codec = Codes(CollectiveKind::kReduceScatter, in, op)) {
    return ReduceScatterEncoded(in, counts, out, op, *codec, std::move(done));
  }
  Start(std::make_shared<ReduceScatterOp>(this, in, counts, out, op, std::move(done)));
}

void Collectives::Reduce(const WireTensor& x, int root, ReduceOp op, Group::Done done) {
  Start(std::make_shared<ReduceToRootOp>(this, x, root, op, std::move(done)));
}

}  // namespace longhaul
