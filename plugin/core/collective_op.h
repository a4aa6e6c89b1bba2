#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plugin/core/collectives.h"

namespace longhaul {

// Elements [first, first + count) of x, flat.
WireTensor Slice(const WireTensor& x, size_t first, size_t count);

// `count` elements for `parts` ranks; the first get one more.
std::vector<size_t> EvenParts(size_t count, int parts);
// What a reducescatter's call has of the ranks' counts.
uint64_t HashOfCounts(const std::vector<int64_t>& counts);

// One collective under way. Steps (sends and receives) are counted; when a phase has none left the
// next begins. The first failure takes the remaining steps back; the operation ends when all have
// come back, because they hold the caller's buffers, and when every rank was heard from.
class Collectives::Op : public std::enable_shared_from_this<Collectives::Op> {
 public:
  Op(Collectives* owner, const CollectiveCall& call, Group::Done done)
      : owner_(owner), call_(call), done_(std::move(done)) {}
  virtual ~Op() = default;

  // `failed_before`: on another rank. `heard`: first packets that came before.
  void Begin(int tag, absl::Duration timeout, absl::Status failed_before,
             const std::vector<PacketHeader>& heard);
  // The first packet from a rank, which says what that one calls.
  void Hear(const PacketHeader& header);
  bool failed() const { return !failure_.ok(); }
  enum class Tell { kOthers, kNobody };
  void Fail(absl::Status why, Tell tell);
  // Fails it, with the ranks that are missing, if its time is over. Answers its deadline, infinite
  // once it has failed.
  absl::Duration Expire(absl::Duration now);
  // Whom it waits for, when it has waited long.
  std::optional<LongWait> Waits(absl::Duration now) const;

  int tag() const { return tag_; }
  void RunDone();

 protected:
  // Posts the steps of phase 0, 1, ...; false: there is no such phase.
  virtual bool Phase(int phase) = 0;
  // The call as rank `dst` hears it.
  virtual CollectiveCall CallTo(int dst) const;
  // A call that is the same as ours: what else must fit; here, a
  // reducescatter's counts, and how values are encoded.
  virtual absl::Status CheckPair(const PacketHeader& header, const CollectiveCall& theirs);
  // Rank r was not heard from. Whether that is its own doing: it may only hand on what others say.
  virtual bool SilentByItself(int /*r*/) const { return true; }
  // What a time-out says; `silent`: the ranks that have not come to it, or nobody.
  virtual std::string TimeoutText(const std::vector<int>& silent) const;

  void Send(const WireTensor& x, int dst);
  void Recv(const WireTensor& x, int src);
  // One frame of x to each of `dsts`, unless there are none; `decoded` gets what they will hold.
  // x and `decoded` are the op's until its phase is over, and may overlap.
  void SendEncoded(const WireTensor& x, const Codec* codec, void* decoded,
                   const std::vector<int>& dsts);
  // Between ranks that have nothing else to say: phases go on meanwhile.
  void SendCallOnly(int dst);
  void RecvCallOnly(int src);
  void ExchangeCalls(int peer) {
    SendCallOnly(peer);
    RecvCallOnly(peer);
  }
  int rank() const { return owner_->context_->options.rank; }
  int size() const { return owner_->context_->options.size; }
  bool heard(int r) const { return heard_[static_cast<size_t>(r)]; }
  absl::Duration timeout() const { return timeout_; }
  const CollectiveCall& call() const { return call_; }
  BufferPool& pool() { return owner_->context_->node->pool(); }

 private:
  Group::Done Step(int& count, int peer, Direction direction, uint64_t bytes);
  void Advance();
  std::vector<int> Silent() const;
  std::vector<int> Slow() const;  // values to or from them are under way

  Collectives* const owner_;
  const CollectiveCall call_;
  Once<absl::Status> done_;
  int tag_ = 0;
  absl::Duration timeout_ = absl::InfiniteDuration(), deadline_ = absl::InfiniteDuration();
  int phase_ = 0;
  int steps_ = 0;
  int calls_only_ = 0;          // of SendCallOnly and RecvCallOnly
  std::vector<bool> heard_;     // by rank
  std::vector<int> under_way_;  // by rank: steps with it that have not come back
  bool posting_ = false;
  bool ended_ = false;
  absl::Status failure_;
};

// "rank 2", "ranks 2, 3"
std::string RanksText(const std::vector<int>& ranks);

}  // namespace longhaul
