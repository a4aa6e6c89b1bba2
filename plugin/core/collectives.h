#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "plugin/core/matcher.h"
#include "plugin/core/sender.h"

namespace longhaul {

// Collectives of one group as state machines over its channels. The k-th collective of every rank
// has channels of its own (tag k), so several may be under way and none can meet another's
// messages. Let n = ranks, B = bytes of the tensor. Messages go straight from rank to rank:
//   broadcast   binomial tree from the root      log2(n) one-way delays; a rank sends <= log2(n) B
//               and to everybody else its call   ends 1 delay after the last rank has come
//   allgather   everybody to everybody           1 delay;  a rank sends (n-1) B
//   allgatherbytes  first how many, then the same    2 delays; a rank sends (n-1) B of its own B
//   barrier     the same with nothing inside     1 delay
//   alltoall    to everybody what is theirs      1 delay;  a rank sends what is not its own
//   allreduce   small: allgather, then each rank adds up all   1 delay;  (n-1) B
//               else: rank r adds up the r-th part of n, then hands it out   2 delays; 2 (n-1)/n B
//   reducescatter   rank r adds up the r-th part     1 delay;  a rank sends what is not its part
//   reduce      small, or two ranks: the root adds up all      1 delay;  the others send B each
//               else: rank r adds up the r-th part of n, the root gathers them    2 delays; B each,
//               and the root gets 2 (n-1)/n B instead of (n-1) B
//   gather      to the root                      1 delay;  the others send B each
//   scatter     from the root                    1 delay;  the root sends (n-1) B of its n B
// Always added up in rank order, so every rank holds equal bits. With a codec: collective_coded.cc.
// So in each of them every rank hears from every other, and each message carries its sender's call
// (collective_call.h): a rank whose collective ends well has seen n equal calls, and where two
// differ none ends well. Who sees a difference tells all; all fail with InvalidArgument. Likewise
// one that is not complete in time: the first rank to see that tells all who is missing. On the
// strand.
class Collectives {
 public:
  Collectives(GroupContext* context, Sender* sender, Matcher* matcher);
  ~Collectives();

  void Broadcast(const WireTensor& x, int root, Group::Done done);
  void AllReduce(const WireTensor& x, ReduceOp op, Group::Done done);
  void AllGather(const WireTensor& in, const WireTensor& out, Group::Done done);
  void AllGatherBytes(std::span<const std::byte> in, uint64_t most,
                      std::shared_ptr<Group::Gathered> out, Group::Done done);
  void AllToAll(const WireTensor& in, const std::vector<int64_t>& send_counts,
                const WireTensor& out, const std::vector<int64_t>& recv_counts, Group::Done done);
  // `in`: the ranks' parts end to end, counts[r] elements for rank r; `out`: this rank's.
  void ReduceScatter(const WireTensor& in, const std::vector<int64_t>& counts,
                     const WireTensor& out, ReduceOp op, Group::Done done);
  void Reduce(const WireTensor& x, int root, ReduceOp op, Group::Done done);
  void Gather(const WireTensor& in, const std::vector<WireTensor>& out, int root, Group::Done done);
  void Scatter(const std::vector<WireTensor>& in, const WireTensor& out, int root,
               Group::Done done);
  void Barrier(Group::Done done);
  void MonitoredBarrier(absl::Duration timeout, bool name_all, Group::Done done);

  // Fails what is overdue; answers the earliest deadline left.
  absl::Duration Expire(absl::Duration now);
  // Of the first that has waited long: the first rank that it waits for.
  std::optional<LongWait> Longest(absl::Duration now) const;

  // Another rank's collective failed, as that abort says: so does ours.
  void OnPeerFailed(int rank, const PacketHeader& abort, std::string_view why);
  // A packet of a collective: whether a receive may have it. Compares its call with ours.
  bool Takes(const PacketHeader& header);
  bool quiet() const { return active_.empty(); }

 private:
  class Op;
  class BroadcastOp;
  class AllGatherOp;
  class AllGatherBytesOp;
  class AllToAllOp;
  class MonitoredBarrierOp;
  class SumOp;  // collective_sums.cc, with the next
  class AllReduceOp;
  class ReduceScatterOp;
  class ReduceToRootOp;
  class CodedOp;  // collective_coded.cc
  class RootOp;   // collective_roots.cc, as BroadcastOp
  // The codec of such a collective, nullptr for none. Of no use to a group of one rank.
  const Codec* Codes(CollectiveKind kind, const WireTensor& x, ReduceOp op);
  void AllReduceEncoded(const WireTensor& x, ReduceOp op, const Codec& codec, Group::Done done);
  void ReduceScatterEncoded(const WireTensor& in, const std::vector<int64_t>& counts,
                            const WireTensor& out, ReduceOp op, const Codec& codec,
                            Group::Done done);
  void AllGatherEncoded(const WireTensor& in, const WireTensor& out, const Codec& codec,
                        Group::Done done);
  void Start(std::shared_ptr<Op> op);
  void Start(std::shared_ptr<Op> op, absl::Duration timeout);
  void Finish(Op& op);

  GroupContext* const context_;
  Sender* const sender_;
  Matcher* const matcher_;
  int next_tag_ = 0;
  absl::flat_hash_map<int, std::shared_ptr<Op>> active_;
  // By tag, of those that have not begun here: failed elsewhere; first packets that came.
  std::map<int, absl::Status> failed_early_;
  std::map<int, std::vector<PacketHeader>> heard_early_;
};

}  // namespace longhaul
