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

// The root has `parts`, one for each rank, and exchanges each with that rank's own `part`: gather
// takes them, scatter gives them.
class Collectives::RootOp final : public Op {
 public:
  RootOp(Collectives* owner, CollectiveKind kind, const WireTensor& part,
         std::vector<WireTensor> parts, int root, Group::Done done)
      : Op(owner,
           {.kind = kind,
            .type = part.type,
            .root = root,
            .count = static_cast<uint64_t>(part.elements())},
           std::move(done)),
        gathers_(kind == CollectiveKind::kGather),
        part_(part),
        parts_(std::move(parts)),
        root_(root) {}

 private:
  bool Phase(int phase) override {
    if (phase > 0) return false;
    for (int r = 0; r < size(); ++r) {
      if (rank() == root_) {
        const WireTensor& place = parts_[static_cast<size_t>(r)];
        if (r == rank()) {
          CopyOwn(place);
        } else {
          Cross(place, r, gathers_);
        }
      } else if (r == root_) {
        Cross(part_, r, !gathers_);
      } else if (r != rank()) {
        ExchangeCalls(r);
      }
    }
    return true;
  }

  // Values go one way between two ranks; the other way goes what is called.
  void Cross(const WireTensor& values, int r, bool receives) {
    if (receives) {
      Recv(values, r);
      SendCallOnly(r);
    } else {
      Send(values, r);
      RecvCallOnly(r);
    }
  }

  void CopyOwn(const WireTensor& place) {
    const WireTensor& from = gathers_ ? part_ : place;
    const WireTensor& to = gathers_ ? place : part_;
    const auto bytes = static_cast<size_t>(part_.elements()) * BytesPerElement(part_.type);
    if (bytes > 0 && from.values != to.values) std::memmove(to.values, from.values, bytes);
  }

  const bool gathers_;
  const WireTensor part_;
  const std::vector<WireTensor> parts_;
  const int root_;
};

void Collectives::Broadcast(const WireTensor& x, int root, Group::Done done) {
  Start(std::make_shared<BroadcastOp>(this, x, root, std::move(done)));
}

void Collectives::Gather(const WireTensor& in, const std::vector<WireTensor>& out, int root,
                         Group::Done done) {
  Start(std::make_shared<RootOp>(this, CollectiveKind::kGather, in, out, root, std::move(done)));
}

void Collectives::Scatter(const std::vector<WireTensor>& in, const WireTensor& out, int root,
                          Group::Done done) {
  Start(std::make_shared<RootOp>(this, CollectiveKind::kScatter, out, in, root, std::move(done)));
}

}  // namespace longhaul
