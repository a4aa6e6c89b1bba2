// Collectives in which one rank, the root, has or gets it all.
#include <cstring>
#include <utility>

#include "plugin/core/collective_op.h"

namespace longhaul {

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
      if (place() != 0) Recv(x_, Parent());
      for (int r = 0; r < size(); ++r) {
        if (r == rank()) continue;
        if (!IsChild(r)) SendCallOnly(r);
        if (place() == 0 || r != Parent()) RecvCallOnly(r);
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
  int Parent() const { return RankAt(place() - parent_bit()); }
  // The parent says what it calls with the values, which it may still be waiting for.
  bool SilentByItself(int r) const override {
    if (place() == 0 || r != Parent()) return true;
    for (int above = place() - parent_bit(); above > 0;) {
      above -= above & -above;
      if (!heard(RankAt(above))) return false;
    }
    return true;
  }
  int RankAt(int place) const { return (place + root_) % size(); }
  bool IsChild(int r) const {
    const int below = (r - root_ + size()) % size() - place();
    return below > 0 && below < parent_bit() && (below & (below - 1)) == 0;
  }

  const WireTensor x_;
  const int root_;
};

class Collectives::GatherOp final : public Op {
 public:
  GatherOp(Collectives* owner, const WireTensor& in, const WireTensor& out, int root,
           Group::Done done)
      : Op(owner,
           {.kind = CollectiveKind::kGather,
            .type = in.type,
            .root = root,
            .count = static_cast<uint64_t>(in.elements())},
           std::move(done)),
        in_(in),
        out_(out),
        root_(root) {}

 private:
  bool Phase(int phase) override {
    if (phase > 0) return false;
    const auto count = static_cast<size_t>(in_.elements());
    for (int r = 0; r < size(); ++r) {
      const bool own = r == rank();
      if (rank() == root_) {
        const WireTensor place = Slice(out_, static_cast<size_t>(r) * count, count);
        if (!own) {
          Recv(place, r);
          SendCallOnly(r);
        } else if (count > 0 && place.values != in_.values) {
          std::memmove(place.values, in_.values, count * BytesPerElement(in_.type));
        }
      } else if (r == root_) {
        Send(in_, r);
        RecvCallOnly(r);
      } else if (!own) {
        ExchangeCalls(r);
      }
    }
    return true;
  }

  const WireTensor in_, out_;
  const int root_;
};

class Collectives::ScatterOp final : public Op {
 public:
  ScatterOp(Collectives* owner, const WireTensor& in, const WireTensor& out, int root,
            Group::Done done)
      : Op(owner,
           {.kind = CollectiveKind::kScatter,
            .type = out.type,
            .root = root,
            .count = static_cast<uint64_t>(out.elements())},
           std::move(done)),
        in_(in),
        out_(out),
        root_(root) {}

 private:
  bool Phase(int phase) override {
    if (phase > 0) return false;
    const auto count = static_cast<size_t>(out_.elements());
    for (int r = 0; r < size(); ++r) {
      const bool own = r == rank();
      if (rank() == root_) {
        const WireTensor part = Slice(in_, static_cast<size_t>(r) * count, count);
        if (!own) {
          Send(part, r);
          RecvCallOnly(r);
        } else if (count > 0 && part.values != out_.values) {
          std::memmove(out_.values, part.values, count * BytesPerElement(out_.type));
        }
      } else if (r == root_) {
        Recv(out_, r);
        SendCallOnly(r);
      } else if (!own) {
        ExchangeCalls(r);
      }
    }
    return true;
  }

  const WireTensor in_, out_;
  const int root_;
};

void Collectives::Broadcast(const WireTensor& x, int root, Group::Done done) {
  Start(std::make_shared<BroadcastOp>(this, x, root, std::move(done)));
}

void Collectives::Gather(const WireTensor& in, const WireTensor& out, int root, Group::Done done) {
  Start(std::make_shared<GatherOp>(this, in, out, root, std::move(done)));
}

void Collectives::Scatter(const WireTensor& in, const WireTensor& out, int root, Group::Done done) {
  Start(std::make_shared<ScatterOp>(this, in, out, root, std::move(done)));
}

}  // namespace longhaul
