// Collectives of which a codec's frames cross the network. Let n = ranks in k sites of m (m = 1: each
// rank is a site), B = bytes of the tensor as f32, F(b) = a frame of b bytes of it. Within a site raw
// values go; across sites, between the k ranks with the same place in theirs, frames:
//   allreduce, direct   each site adds up, a rank the m-th part of it; that part is cut in k, whose
//                       owner decodes what the others send, adds up, and encodes the sum once for all
//                       2 delays; a rank sends 2 (k-1) F(B/n), a value is encoded twice
//   allreduce, gather   the m-th part is encoded once for all, who decode and add up all k
//                       1 delay;  (k-1) F(B/m), a value is encoded once
//   allreduce, ring     the sum of a k-th of that part goes round, encoded anew at each site, and then
//                       as directly: k delays; 2 (k-1) F(B/n), a value is encoded up to k times
//   reducescatter       the same without what follows the sum
//   allgather           a rank's values are encoded once for all
// and of m > 1 raw values within the site before, (m-1)/m B, and after. Sums are taken in f32, in the
// order of ranks within a site and of sites, and rounded to the tensor's type once; a ring's in the
// order of its way. Every rank holds equal bits: whoever sends a frame for others to keep goes on
// from what they decode. Frames are pipelined: longer ones than kWholeFrameBytes in pieces. What
// holds NaN, Inf or more than a codec carries (RawFrom) goes as f32 values instead of a frame, so
// that every rank gets the NaN or Inf.
#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "plugin/core/collective_op.h"
#include "plugin/core/reduce.h"

namespace longhaul {
namespace {

using Way = CodecPolicy::Collectives::Way;

constexpr size_t kSmallFrames = 8 << 10;  // one delay is worth more than these bytes

// Of many values such a codec keeps a few: a sum of several keeps less of each.
bool KeepsFew(const Codec& codec) {
  const std::string_view name = codec.name();
  return name.starts_with("topk-") || name.starts_with("randk-");
}

Way Choose(const CodecPolicy::Collectives& wanted, const Codec& codec, int size, int64_t elements) {
  if (wanted.way != Way::kAuto) return wanted.way;
  const int sites = size / wanted.site_size;
  const auto whole = static_cast<uint64_t>(elements / wanted.site_size + 1);
  const size_t frames =
      static_cast<size_t>(sites - 1) * codec.MaxFrameBytes({1, whole}, DType::kF32);
  return sites <= 2 || KeepsFew(codec) || frames <= kSmallFrames ? Way::kGather : Way::kDirect;
}

}  // namespace

class Collectives::CodedOp final : public Op {
 public:
  CodedOp(Collectives* owner, CollectiveCall call, const Codec& codec, Way way, Group::Done done)
      : Op(owner, call, std::move(done)),
        codec_(codec),
        way_(way),
        places_(owner->context_->options.codecs.collectives.site_size),
        sites_(size() / places_),
        site_(rank() / places_),
        place_(rank() % places_),
        buffers_(static_cast<size_t>(sites_)),
        arrived_(static_cast<size_t>(sites_)) {}

  void PlanAllReduce(const WireTensor& x) {
    Cut(x, EvenParts(static_cast<size_t>(x.elements()), way_ == Way::kGather ? places_ : size()));
    outs_ = parts_;
    PlanSum();
    if (way_ == Way::kGather) {
      plan_.push_back([this] { AddWholes(); });
    } else {
      plan_.push_back([this] { HandOutSum(); });
      plan_.push_back([this] { Store(); });
    }
    plan_.push_back([this] { HandOutInside(); });
  }

  void PlanReduceScatter(const WireTensor& in, const std::vector<int64_t>& counts,
                         const WireTensor& out) {
    Cut(in, std::vector<size_t>(counts.begin(), counts.end()));
    PlanSum();
    plan_.push_back([this, out] { AddParts(out); });
  }

  void PlanAllGather(const WireTensor& in, const WireTensor& out) {
    const auto count = static_cast<size_t>(in.elements());
    for (int r = 0; r < size(); ++r) {
      outs_.push_back(Slice(out, static_cast<size_t>(r) * count, count));
    }
    plan_.push_back([this, in] {
      MeetTheRest(false);
      HandOut(in, outs_);
    });
    plan_.push_back([this] { HandOutInside(); });
  }

 private:
  bool Phase(int phase) override {
    if (static_cast<size_t>(phase) >= plan_.size()) return false;
    plan_[static_cast<size_t>(phase)]();
    return true;
  }

  // A site's sum is cut in parts; those of one place, a column, are that place's in every site.
  void Cut(const WireTensor& x, const std::vector<size_t>& counts) {
    size_t first = 0;
    for (const size_t count : counts) {
      parts_.push_back(Slice(x, first, count));
      first += count;
    }
  }
  int column_parts() const { return way_ == Way::kGather ? 1 : sites_; }
  size_t PartOf(int place, int i) const { return static_cast<size_t>(i * places_ + place); }
  const WireTensor& Mine(int i) const { return parts_[PartOf(place_, i)]; }
  int RankAt(int site, int place) const { return site * places_ + place; }
  int Beside(int site) const { return RankAt(site, place_); }  // at this place of another site

  void PlanSum() {
    plan_.push_back([this] {
      MeetTheRest(places_ > 1);
      ExchangeInside();
    });
    plan_.push_back([this] { AddInside(); });
    if (way_ == Way::kGather) {
      plan_.push_back([this] { ExchangeWholes(); });
    } else if (way_ == Way::kDirect) {
      plan_.push_back([this] { ExchangeParts(); });
    } else {
      for (int step = 0; step + 1 < sites_; ++step) {
        plan_.push_back([this, step] { PassOn(step); });
        plan_.push_back([this, step] { AddPassed(step); });
      }
    }
  }

  // Who has no values for another rank yet tells it the call, so that it is not taken for missing.
  void MeetTheRest(bool inside_first) {
    for (int r = 0; r < size(); ++r) {
      if (r == rank()) continue;
      const int away = (r / places_ - site_ + sites_) % sites_;
      const bool column = r % places_ == place_, ring = way_ == Way::kRing;
      const bool sends = inside_first ? away == 0 : column && (!ring || away == 1);
      const bool hears = inside_first ? away == 0 : column && (!ring || away == sites_ - 1);
      if (!sends) SendCallOnly(r);
      if (!hears) RecvCallOnly(r);
    }
  }

  void ExchangeInside() {
    for (int place = 0; place < places_; ++place) {
      std::vector<PooledBuffer>& theirs = inside_.emplace_back();
      if (place == place_) continue;
      for (int i = 0; i < column_parts(); ++i) {
        WireTensor mine = Mine(i);
        theirs.push_back(pool().Acquire(Bytes(mine)));
        mine.values = theirs.back().bytes().data();
        Recv(mine, RankAt(site_, place));
        Send(parts_[PartOf(place, i)], RankAt(site_, place));
      }
    }
  }

  void AddInside() {
    for (int i = 0; i < column_parts(); ++i) {
      std::vector<const std::byte*> sources;
      for (int place = 0; place < places_; ++place) {
        const auto* own = static_cast<const std::byte*>(Mine(i).values);
        sources.push_back(place == place_ ? own : inside_[At(place)][At(i)].bytes().data());
      }
      sums_.push_back(pool().Acquire(Floats(Mine(i))));
      SumFloats(Mine(i).type, sources, Count(Mine(i)), 1, ElementType::kF32,
                sums_.back().bytes().data());
    }
    inside_.clear();
  }

  // Direct: each site's sum of a part goes to the part's owner.
  void ExchangeParts() {
    for (int site = 0; site < sites_; ++site) {
      if (site == site_) continue;
      Recv(Into(arrived_[At(site)], Mine(site_)), Beside(site));
      SendFrame(F32(sums_[At(site)], Mine(site)), nullptr, {Beside(site)});
    }
  }

  // Ring: the part that ends at site i begins at site i + 1.
  int Passed(int step) const { return (site_ - step - 1 + 2 * sites_) % sites_; }
  void PassOn(int step) {
    const int i = Passed(step);
    Recv(Into(arrived_[0], Mine(Passed(step + 1))), Beside((site_ + sites_ - 1) % sites_));
    SendFrame(F32(sums_[At(i)], Mine(i)), nullptr, {Beside((site_ + 1) % sites_)});
  }
  void AddPassed(int step) {
    const int i = Passed(step + 1);
    std::byte* const sum = sums_[At(i)].bytes().data();
    const std::byte* const sources[] = {arrived_[0].bytes().data(), sum};
    SumFloats(ElementType::kF32, sources, Count(Mine(i)), 1, ElementType::kF32, sum);
  }

  // The whole sum of this rank's part.
  void AddParts(const WireTensor& out) {
    if (Count(out) == 0) return;
    std::vector<const std::byte*> sources;
    for (int site = 0; site < sites_; ++site) {
      if (site == site_) {
        sources.push_back(sums_[At(site_)].bytes().data());
      } else if (way_ == Way::kDirect) {
        sources.push_back(arrived_[At(site)].bytes().data());
      }
    }
    SumFloats(ElementType::kF32, sources, Count(out), divisor(), out.type,
              static_cast<std::byte*>(out.values));
  }

  // Gather: everybody's sums to everybody.
  void ExchangeWholes() {
    std::vector<int> others;
    for (int site = 0; site < sites_; ++site) {
      if (site == site_) continue;
      others.push_back(Beside(site));
      Recv(Into(arrived_[At(site)], Mine(0)), Beside(site));
    }
    const WireTensor own = F32(sums_[0], Mine(0));
    SendFrame(own, own.values, others);
  }
  void AddWholes() {
    std::vector<const std::byte*> sources;
    for (int site = 0; site < sites_; ++site) {
      sources.push_back((site == site_ ? sums_[0] : arrived_[At(site)]).bytes().data());
    }
    SumFloats(ElementType::kF32, sources, Count(Mine(0)), divisor(), Mine(0).type,
              static_cast<std::byte*>(Mine(0).values));
  }

  // Frames are of f32: of another type they are decoded beside and rounded in Store.
  void HandOutSum() {
    std::vector<WireTensor> places = outs_;
    for (int i = 0; i < sites_ && outs_[0].type != ElementType::kF32; ++i) {
      places[PartOf(place_, i)] = Into(buffers_[At(i)], Mine(i));
    }
    const WireTensor& own = places[PartOf(place_, site_)];
    AddParts(own);
    HandOut(own, places);
  }
  void Store() {
    for (int i = 0; i < sites_ && outs_[0].type != ElementType::kF32; ++i) {
      const std::byte* const sources[] = {buffers_[At(i)].bytes().data()};
      SumFloats(ElementType::kF32, sources, Count(Mine(i)), 1, Mine(i).type,
                static_cast<std::byte*>(Mine(i).values));
    }
  }

  // One frame of `own` to this place of every site, and theirs into their parts of `places`.
  void HandOut(const WireTensor& own, const std::vector<WireTensor>& places) {
    std::vector<int> others;
    for (int site = 0; site < sites_; ++site) {
      if (site == site_) continue;
      others.push_back(Beside(site));
      Recv(places[PartOf(place_, site)], Beside(site));
    }
    const WireTensor& mine = places[PartOf(place_, site_)];
    if (others.empty() && mine.values != own.values && Count(own) > 0) {
      std::memmove(mine.values, own.values, Bytes(own));
    }
    SendFrame(own, mine.values, others);
  }

  void HandOutInside() {
    for (int place = 0; place < places_; ++place) {
      if (place == place_) continue;
      for (int i = 0; i < column_parts(); ++i) {
        Recv(outs_[PartOf(place, i)], RankAt(site_, place));
        Send(outs_[PartOf(place_, i)], RankAt(site_, place));
      }
    }
  }

  // No codec makes frames of nothing.
  void SendFrame(const WireTensor& x, void* decoded, const std::vector<int>& dsts) {
    if (Count(x) > 0) return SendEncoded(x, &codec_, decoded, dsts);
    for (const int dst : dsts) Send(x, dst);
  }

  static size_t At(int i) { return static_cast<size_t>(i); }
  static size_t Count(const WireTensor& x) { return static_cast<size_t>(x.elements()); }
  static size_t Bytes(const WireTensor& x) { return Count(x) * BytesPerElement(x.type); }
  static size_t Floats(const WireTensor& x) { return Count(x) * sizeof(float); }
  static WireTensor F32(const PooledBuffer& buffer, const WireTensor& like) {
    return {.values = buffer.bytes().data(), .type = ElementType::kF32, .dims = like.dims};
  }
  WireTensor Into(PooledBuffer& buffer, const WireTensor& like) {
    buffer = pool().Acquire(Floats(like));
    return F32(buffer, like);
  }
  double divisor() const { return call().operation == ReduceOp::kAvg ? size() : 1; }

  const Codec& codec_;
  const Way way_;
  const int places_, sites_;                       // of a site; of the group
  const int site_, place_;                         // this rank's
  std::vector<std::function<void()>> plan_;        // phases
  std::vector<WireTensor> parts_, outs_;           // what is added up; what is handed out
  std::vector<std::vector<PooledBuffer>> inside_;  // by place: its values of this column
  std::vector<PooledBuffer> sums_;                 // of this column's parts, f32
  std::vector<PooledBuffer> buffers_, arrived_;    // by site, f32
};

const Codec* Collectives::Codes(CollectiveKind kind, const WireTensor& x, ReduceOp op) {
  if (context_->options.size == 1) return nullptr;
  if (context_->coding.TooShortFor(kind, x, op)) context_->counters.CountShort(x.elements());
  return context_->coding.ForCollective(kind, x, op);
}

void Collectives::AllReduceEncoded(const WireTensor& x, ReduceOp op, const Codec& codec,
                                   Group::Done done) {
  const CodecPolicy::Collectives& wanted = context_->options.codecs.collectives;
  const CollectiveCall call{.kind = CollectiveKind::kAllReduce,
                            .operation = op,
                            .type = x.type,
                            .count = static_cast<uint64_t>(x.elements()),
                            .balance = CodingOf(codec, wanted)};
  const Way way = Choose(wanted, codec, context_->options.size, x.elements());
  const auto made = std::make_shared<CodedOp>(this, call, codec, way, std::move(done));
  made->PlanAllReduce(x);
  Start(made);
}

void Collectives::ReduceScatterEncoded(const WireTensor& in, const std::vector<int64_t>& counts,
                                       const WireTensor& out, ReduceOp op, const Codec& codec,
                                       Group::Done done) {
  const CodecPolicy::Collectives& wanted = context_->options.codecs.collectives;
  const CollectiveCall call{.kind = CollectiveKind::kReduceScatter,
                            .operation = op,
                            .type = in.type,
                            .count = static_cast<uint64_t>(in.elements()),
                            .expected = HashOfCounts(counts),
                            .balance = CodingOf(codec, wanted)};
  const Way way = wanted.way == Way::kRing ? Way::kRing : Way::kDirect;
  const auto made = std::make_shared<CodedOp>(this, call, codec, way, std::move(done));
  made->PlanReduceScatter(in, counts, out);
  Start(made);
}

void Collectives::AllGatherEncoded(const WireTensor& in, const WireTensor& out, const Codec& codec,
                                   Group::Done done) {
  const CodecPolicy::Collectives& wanted = context_->options.codecs.collectives;
  const CollectiveCall call{.kind = CollectiveKind::kAllGather,
                            .type = in.type,
                            .count = static_cast<uint64_t>(in.elements()),
                            .balance = CodingOf(codec, wanted)};
  const auto made = std::make_shared<CodedOp>(this, call, codec, Way::kDirect, std::move(done));
  made->PlanAllGather(in, out);
  Start(made);
}

}  // namespace longhaul
