#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "compressors/codec.h"
#include "plugin/core/collective_call.h"
#include "plugin/core/group.h"
#include "plugin/core/packet.h"

namespace longhaul {

// The codecs of one group's policy. Thread safe.
class CodingTable {
 public:
  // NotFound: a name that the catalogue does not know. InvalidArgument: a negative min_elements; of
  // collectives a codec with a state, or sites that do not fit.
  static absl::StatusOr<CodingTable> Create(const CodecPolicy& policy, int rank, int size);

  // InvalidArgument: x would be encoded, but not even its kind is known, and that decides by what.
  absl::Status CheckKind(const WireTensor& x, int dst, int tag) const;
  // What a tensor to `dst` is encoded with; nullptr: it goes raw.
  const Codec* Pick(const WireTensor& x, int dst, int tag) const;
  // Whether x would be encoded if only it were longer.
  bool TooShort(const WireTensor& x, int dst, int tag) const;
  // What that collective's values are encoded with; nullptr: they go raw. `x`: what a rank brings.
  const Codec* ForCollective(CollectiveKind kind, const WireTensor& x, ReduceOp op) const;
  // Whether it would be if only x were longer.
  bool TooShortFor(CollectiveKind kind, const WireTensor& x, ReduceOp op) const;
  // Group::UseCodec, and what is in use by it.
  absl::Status Use(int dst, TensorKind kind, std::string_view codec);
  using Used = std::map<std::pair<int, TensorKind>, std::string>;
  Used used() const;
  // What an encoded tensor from group rank `src` to `dst` is, as far as anything tells.
  std::optional<TensorKind> KindOf(int src, int dst, int tag) const;
  // The policy's codec for that peer and tag, whatever the tensor.
  const Codec* Named(int dst, int tag) const;

 private:
  struct Entry {
    std::shared_ptr<const Codec> codec;  // nullptr: raw
  };
  bool LongEnough(const WireTensor& x) const;
  const Codec* OfPolicy(int dst, TensorKind kind) const;
  const Codec* OfCollective(CollectiveKind kind, ReduceOp op) const;
  absl::Status MakeCollectives();
  bool Wraps(int src, int dst) const;

  CodecPolicy policy_;
  int rank_ = 0, size_ = 0;
  Entry forward_, backward_, all_reduce_, reduce_scatter_, all_gather_;
  std::map<int, std::pair<Entry, Entry>> by_boundary_;
  std::map<int, Entry> by_tag_;
  // Written on the strand, read anywhere. What was made stays: a tensor may be at a coder still.
  struct InUse {
    std::mutex mu;
    std::map<std::string, std::shared_ptr<const Codec>> made;   // under mu, by name
    std::map<std::pair<int, TensorKind>, const Codec*> codecs;  // under mu; nullptr: raw
  };
  std::shared_ptr<InUse> in_use_ = std::make_shared<InUse>();
};

// The plain codec (no "+ef") of a packet's codec id, never destroyed; nullptr when there is none.
const Codec* PlainCodec(uint16_t id);

// How a collective's values are encoded, as one number that ranks compare, never 0: the codec's id
// below a hash of all that the policy says of collectives. In words: "exactly" (0), "as int8-b64".
uint64_t CodingOf(const Codec& codec, const CodecPolicy::Collectives& collectives);
std::string CodingText(uint64_t coding);

// The magnitude from which on a value of a collective of that type is not given to the codec, so that
// an overflow reaches every rank as one: what becomes Inf when the sum is rounded to f16; what fp16
// would clamp; what a rotation or a range could carry beyond f32, NaN and Inf.
float RawFrom(const Codec& codec, ElementType type);

// One number for what frames this build makes and reads: all names and ids of the catalogue. Ranks of
// one group must have the same.
uint64_t CodecTable();

// How many states of a codec a point-to-point channel keeps at each end; a message's is that of its
// number modulo them.
size_t StateSlots(const GroupOptions& options, int tag);

// The catalogue's name of a codec id in a packet, for messages and counters.
std::string CodecNameOf(uint16_t id);

// The longest frame that codec makes of such a tensor; 0 for an unknown codec.
size_t MaxFrameBytes(uint16_t id, const Tensor& x);

// `x` as the codec on both sides sees it: rows as long as the last dim that the sender described,
// or one row when it described none.
Tensor CodecTensor(const WireTensor& x, const PacketHeader& header);

// Fills `x` with what a receiver makes of the frame in a tensor of that dtype, bit for bit. `state`
// as below. Errors: the receiver's.
absl::Status DecodeLikeReceiver(std::span<const std::byte> frame, const CodecState* state,
                                Tensor x);

// What keys the noise of a message's frame.
uint64_t FrameSeed(uint64_t group_seed, const PacketHeader& header);

// ||decoded - x||^2 / ||x||^2, 0 of an x that is all zero; equal shapes.
double Nmse(ConstTensor decoded, ConstTensor x);

// The same of one codec frame of x; `scratch` holds 4 bytes per element. `state`
// is the sender's after encoding: where the receiver adds differences, it holds what that one has.
absl::StatusOr<double> FrameNmse(std::span<const std::byte> frame, ConstTensor x,
                                 const CodecState* state, std::span<std::byte> scratch);

}  // namespace longhaul
