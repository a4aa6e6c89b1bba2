#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "plugin/core/node.h"
#include "plugin/core/tensor_kind.h"

namespace longhaul {

// Element types that cross the wire; values are fixed (they stand in frames).
enum class ElementType : uint8_t {
  kF32 = 0,
  kBF16 = 1,
  kF16 = 2,
  kF64 = 3,
  kI8 = 4,
  kU8 = 5,
  kI16 = 6,
  kI32 = 7,
  kI64 = 8,
  kBool = 9,
  kComplex64 = 10,
  kComplex128 = 11,
  kU16 = 12,
  kU32 = 13,
  kU64 = 14,
  kF8E4M3 = 15,
  kF8E5M2 = 16,
  kF8E4M3Fnuz = 17,
  kF8E5M2Fnuz = 18,
  kF8E8M0 = 19,
};
constexpr ElementType kLastElementType = ElementType::kF8E8M0;
size_t BytesPerElement(ElementType type);
std::string_view ToString(ElementType type);

class Coder;  // coder.h

// Contiguous memory, borrowed until the operation's callback has run. `dims` of any rank.
struct WireTensor {
  void* values;
  ElementType type;
  std::vector<int64_t> dims;
  // Of memory that only this coder reaches, a device's: for point-to-point operations alone, and
  // sends of those alone that Group::CodecFor answers a codec for. nullptr: host memory.
  std::shared_ptr<Coder> coder = nullptr;
  std::shared_ptr<void> after = nullptr;  // an event of the device that the coder waits for first
  int64_t elements() const;
};

// Which codec a float tensor of a group is sent with. The default sends everything lossless.
// Only float32/bfloat16/float16 tensors of at least `min_elements` are ever encoded, sent point to
// point or by the collectives that `collectives` names; all else stays lossless. The receiver reads
// the codec from the frame; a lossy frame in a group whose policy is all "none" is an error.
struct CodecPolicy {
  std::string forward = "none";   // of activations
  std::string backward = "none";  // of gradients
  struct Pair {
    std::string forward, backward;
  };
  // Of the boundary between group ranks b and b + 1; wins over forward and backward.
  std::map<int, Pair> by_boundary = {};
  std::map<int, std::string> by_tag;  // wins over the kind
  int64_t min_elements = 4096;        // 0 or more; of a collective: what each rank brings

  // Of collectives, those that add up for sums and averages alone; every rank gets the same bits,
  // its own values as the others get them. Codecs without a state ("+ef", "aqsgd4" have one).
  struct Collectives {
    std::string all_reduce = "none", reduce_scatter = "none", all_gather = "none";
    // How sums come about (collective_coded.cc). kAuto: an allreduce of a codec that keeps few
    // values, of two sites, or of a few kilobytes by kGather, all else by kDirect.
    enum class Way : uint8_t { kAuto, kDirect, kGather, kRing } way = Way::kAuto;
    // Ranks r with the same r / site_size are at one site: raw values go within sites, frames
    // between ranks that have the same place in theirs. 1 or more, a divisor of the group's size.
    int site_size = 1;
    bool lossless() const;
  } collectives = {};
  // What a tensor is whose tag says no kind (tensor_kind.h). kByRank: one to a higher group rank is
  // an activation, one to a lower rank a gradient; between the first and the last of three ranks
  // and more, where a looped pipeline closes, it is an error. kRefused: always an error. Neither is
  // one where both kinds have the same codec.
  enum class UnnamedKind { kByRank, kRefused } unnamed_kind = UnnamedKind::kByRank;
  bool lossless() const;
  // Both codecs between two ranks.
  Pair Between(int rank, int peer) const;
};

// What ranks must have in common of it: "" if lossless, else " all_reduce=int8-b64 ...".
std::string ToString(const CodecPolicy::Collectives& collectives);

struct GroupOptions {
  std::string name;  // the same on every rank, unique among a node's groups
  int rank;
  int size;
  absl::Duration timeout = absl::Minutes(30);  // of each operation
  CodecPolicy codecs = {};
  uint64_t seed = 0;  // of codec noise; frames get FoldSeed of it, sequence, source, tag
  // n > 0: the sender decodes every n-th encoded frame on the host and measures its error; of a
  // tensor on a device, on a copy.
  int nmse_every = 0;
  // States of codecs are kept per peer, tag and slot = sequence modulo ef_slots, on both ends; the
  // same on every rank. Set it to the micro-batches per step, so that micro-batch m of each step
  // meets its own residual. Channels of samples (tensor_kind.h) have one.
  int ef_slots = 1;
};

// What crossed in one direction between this rank and one peer with one codec, of one kind, since
// the group was made. Durations are this process's.
struct CrossingCounters {
  int peer;           // group rank
  bool sent;          // true: this rank -> peer
  std::string codec;  // "none": raw values
  // As the tag said it; of encoded tensors whose tag does not, as the order of ranks did.
  std::optional<TensorKind> kind = {};
  int64_t tensors = 0;
  int64_t elements = 0;
  int64_t payload_bytes = 0;  // codec frames (or raw values): what a measured ratio comes from
  int64_t message_bytes = 0;  // with our message headers
  int64_t device_tensors =
      0;  // of `tensors`, coded by a device beside them; the others on the host
  // Of `tensors`, put by the sender into the receiver's tensor, in the same process, without a
  // transport; in all other fields they count as if they had gone through one.
  int64_t crossed_tensors = 0;
  absl::Duration encode = absl::ZeroDuration(), decode = absl::ZeroDuration();
  int64_t nmse_samples = 0;  // sender only
  double nmse_sum = 0, nmse_max = 0;
  uint64_t payload_hash = 0;  // order-dependent hash of every payload byte: equality of two runs
  // Messages of collectives, and their bytes with headers; in no field above. In the row of their
  // codec without a kind.
  int64_t collective_messages = 0, collective_bytes = 0;
};

// Rows of one peer and direction added up, in the order of the first of each. `codec` is that of
// the encoded tensors ("none": there were none; of several all), `kind` none.
std::vector<CrossingCounters> TotalsByPeer(const std::vector<CrossingCounters>& rows);
// The same for each kind apart, of tensors whose kind is known.
std::vector<CrossingCounters> TotalsByPeerAndKind(const std::vector<CrossingCounters>& rows);

// What befell one message at this end, by the node's clock; for traces.
struct MessageTimes {
  int peer;  // group rank
  bool sent;
  bool collective;
  int tag;  // these three name it among those of the two ranks
  uint64_t sequence;
  int64_t bytes;                 // with our message headers
  absl::Duration at;             // sent: given to the transport; received: all of it was here
  absl::Duration coded, coding;  // when its frame was made or decoded, and how long that took
};
using MessageWatch = std::function<void(const MessageTimes&)>;

// A frame whose error its sender measured (nmse_every).
struct NmseSample {
  int peer;  // group rank that it was sent to
  double nmse;
};

// Values are fixed (they stand in headers).
enum class ReduceOp : uint8_t { kSum, kAvg, kProduct, kMin, kMax, kBAnd, kBOr, kBXor };
constexpr ReduceOp kLastReduceOp = ReduceOp::kBXor;
std::string_view ToString(ReduceOp op);
constexpr int kAnySource = -1;

// One rank's view of a set of ranks. Operations are asynchronous: they return at once, and `done`
// runs exactly once, on success and failure alike, on the progress thread (ucx) or on the thread
// that completed the match (loopback); it must not block or call back into c10d.
// Matching is FIFO per (source, tag); send never waits for a receive of its own and the other way
// round. Sums are taken in rank order on every rank, so all ranks hold equal bits.
// Errors: InvalidArgument (dtype or count mismatch, naming both sides), DeadlineExceeded (timeout,
// naming peer, tag and sequence; of a collective the ranks that did not come to it, in the same
// words on every rank), Unavailable (peer dead, naming it), Aborted.
// Thread safe. Collectives must be called in the same order by every rank. Where ranks call
// different ones (another operation, root, reduction, dtype or count, or an alltoall whose pairs
// disagree), each rank of the group gets InvalidArgument that names two calls and their ranks, none
// gets a result, and the group goes on with the next. That is sure because no rank's collective
// ends well before it has heard from every other rank what that one calls; so a broadcast, too,
// ends only when all ranks have come to it. After an error the contents of outputs are undefined.
class Group {
 public:
  using Done = std::function<void(absl::Status)>;
  using DoneFrom = std::function<void(absl::StatusOr<int>)>;  // the source rank

  // Outstanding operations fail with Aborted.
  virtual ~Group() = default;

  // `addresses[r]` is Node::address() of rank r, the same vector on every rank. Connects to all of
  // them and waits until they have answered: with ucx that takes their progress threads only, not
  // their Create. Never call it from a callback.
  // InvalidArgument: options or addresses; NotFound: an unknown codec; Unavailable or
  // DeadlineExceeded: a rank that does not answer, named.
  static absl::StatusOr<std::shared_ptr<Group>> Create(std::shared_ptr<Node> node,
                                                       const GroupOptions& options,
                                                       const std::vector<std::string>& addresses);

  virtual const GroupOptions& options() const = 0;

  // Tags are 0 and more: InvalidArgument below. Of Send also: the policy cannot know the kind of x.
  virtual void Send(const WireTensor& x, int dst, int tag, Done done) = 0;
  virtual void Recv(const WireTensor& x, int src, int tag, Done done) = 0;
  virtual void RecvAny(const WireTensor& x, int tag, DoneFrom done) = 0;

  // Send, which also writes into `decoded` what the receiver's tensor will hold, bit for bit, codec
  // noise and state included. x and `decoded` lie in host memory, do not overlap and have x's dtype
  // and elements; `decoded` is written until `done` has run, and holds the values if that is OK.
  virtual void SendDecoded(const WireTensor& x, void* decoded, int dst, int tag, Done done) = 0;

  // From the next send on, tensors of that kind to `dst` are encoded by `codec` ("none": not at all)
  // in place of the policy's codec for them, by_tag aside; a state goes on with it (SaveState). The
  // receiver reads each frame's codec from its header, so nothing is agreed on. Waits for the
  // progress thread: never call it from a callback. NotFound: an unknown codec. InvalidArgument: no
  // peer; a codec that keeps a state and is not the policy's; a policy that is all "none", whose
  // receivers refuse frames.
  virtual absl::Status UseCodec(int dst, TensorKind kind, std::string_view codec) = 0;

  // The codec that a send of x to `dst` takes; empty: raw values.
  virtual std::string_view CodecFor(const WireTensor& x, int dst, int tag) const = 0;

  // In place on x, equal dtype and count on all ranks.
  virtual void Broadcast(const WireTensor& x, int root, Done done) = 0;
  virtual void AllReduce(const WireTensor& x, ReduceOp op, Done done) = 0;
  // out: size() times in.elements(), rank order.
  virtual void AllGather(const WireTensor& in, const WireTensor& out, Done done) = 0;
  // Everybody gets the bytes that everybody brings, in rank order. `in` is borrowed until `done` has
  // run; `out` holds them if that is OK. InvalidArgument, before anything is allocated: a rank says
  // that it brings more than `most`.
  using Gathered = std::vector<std::vector<std::byte>>;
  virtual void AllGatherBytes(std::span<const std::byte> in, uint64_t most,
                              std::shared_ptr<Gathered> out, Done done) = 0;
  // Rank r gets the next send_counts[r] elements of `in` and fills the next recv_counts[r] of
  // `out`; what one rank sends to another must be what that one expects. The two do not overlap.
  virtual void AllToAll(const WireTensor& in, const std::vector<int64_t>& send_counts,
                        const WireTensor& out, const std::vector<int64_t>& recv_counts,
                        Done done) = 0;
  // `in`: the ranks' parts end to end, counts[r] elements for rank r, the same counts on all ranks;
  // `out`: this rank's, added up. `out` may be this rank's part of `in`.
  virtual void ReduceScatter(const WireTensor& in, const std::vector<int64_t>& counts,
                             const WireTensor& out, ReduceOp op, Done done) = 0;
  // In place on x of the root; those of the others stay as they are.
  virtual void Reduce(const WireTensor& x, int root, ReduceOp op, Done done) = 0;
  // out: one like `in` for each rank, by rank; of the root, nobody else's is looked at.
  virtual void Gather(const WireTensor& in, const std::vector<WireTensor>& out, int root,
                      Done done) = 0;
  // in: one like `out` for each rank, by rank; of the root, nobody else's is looked at.
  virtual void Scatter(const std::vector<WireTensor>& in, const WireTensor& out, int root,
                       Done done) = 0;
  virtual void Barrier(Done done) = 0;
  // A barrier with a time limit of its own. The error names the ranks that did not come, all or the
  // first, in gloo's words, the same on every rank: "Rank 1 failed to pass monitoredBarrier in 5 ms".
  virtual void MonitoredBarrier(absl::Duration timeout, bool name_all, Done done) = 0;

  virtual void SetTimeout(absl::Duration timeout) = 0;
  // From now on told of every message that has gone or been delivered, on the progress thread or, of
  // loopback, the one that completed it; must not block. Empty: nobody is.
  virtual void Watch(MessageWatch watch) = 0;
  // By peer, what was sent first; of each peer and direction at least the row of codec "none"
  // without a kind, which comes first.
  virtual std::vector<CrossingCounters> counters() const = 0;
  // One sentence when this group opted in to a codec and encoded nothing at this rank, because each
  // tensor that was to be was below min_elements: the largest of them, and what to do. Else empty.
  virtual std::string NothingEncoded() const = 0;
  // What was measured since the last call, in that order, as far as it is kept: the first 4096.
  virtual std::vector<NmseSample> TakeNmse() = 0;

  // What a resumed run needs to go on with the same bytes: sequence numbers of all point-to-point
  // channels (which key codec noise), states of codecs at both ends, which frames were sampled for
  // NMSE. Save when none of this rank's operations is outstanding (else FailedPrecondition), at the
  // same point of every rank's program; messages that no receive has been posted for are not in it.
  // Load before the first operation (else FailedPrecondition), on every rank before any sends.
  // InvalidArgument: saved with another rank, size, codec policy, ef_slots or seed, naming both.
  // DataLoss: truncated or corrupt. On error nothing has changed. CheckState answers the errors in
  // the state itself and changes nothing.
  // Save and load wait for the progress thread: never call them from a callback.
  virtual absl::StatusOr<std::string> SaveState() = 0;
  virtual absl::Status CheckState(std::string_view state) const = 0;
  virtual absl::Status LoadState(std::string_view state) = 0;

  // The last operations with each rank: kind, tag, bytes, state, age; the newest last. What a
  // time-out writes into a file that its error names.
  virtual std::string RecentOperations() const = 0;

  // Outstanding operations fail with `why`, later ones at once; the other ranks' too, with Aborted
  // naming this rank. Idempotent.
  virtual void Abort(absl::Status why) = 0;
};

}  // namespace longhaul
