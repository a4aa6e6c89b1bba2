#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "plugin/core/packet.h"

namespace longhaul {

// What a rank calls. It stands in the header of every data message of a collective, so that ranks
// which call different things hear of it before a byte is taken for what it is not.
//
// In the 32 bytes that are the dims of other messages, little-endian:
//   off  type  field
//     0  u8    kind       CollectiveKind
//     1  u8    operation  ReduceOp of what adds up, else 0
//     2  u8    type       ElementType
//     3  u8    0
//     4  i32   root       where the operation has one, else 0
//     8  u64   count      elements that each rank brings; of a scatter, gets; of alltoall, allgatherbytes 0
//    16  u64   expected   alltoall: elements that the sender expects of the receiver;
//                         reducescatter: hash of the ranks' counts; else 0
//    24  u64   balance    alltoall: see CountBalance; of what is encoded: CodingOf (coding.h);
//                         else 0
enum class CollectiveKind : uint8_t {
  kBroadcast = 1,
  kAllReduce = 2,
  kAllGather = 3,
  kAllToAll = 4,
  kBarrier = 5,
  kReduce = 6,
  kReduceScatter = 7,
  kGather = 8,
  kScatter = 9,
  kMonitoredBarrier = 10,
  kAllGatherBytes = 11,
};
constexpr CollectiveKind kLastCollectiveKind = CollectiveKind::kAllGatherBytes;

struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::kBarrier;
  ReduceOp operation = ReduceOp::kSum;
  ElementType type = ElementType::kU8;
  int32_t root = 0;
  uint64_t count = 0;
  uint64_t expected = 0;
  uint64_t balance = 0;

  // Whether one rank may call this where another calls that: `expected` and `balance` are matters
  // of pairs and of the whole group.
  bool Fits(const CollectiveCall& other) const {
    return kind == other.kind && operation == other.operation && type == other.type &&
           root == other.root && count == other.count;
  }
};

std::string_view NameOf(CollectiveKind kind);  // "allreduce"
// "allreduce(sum, f32 x 5)"
std::string ToString(const CollectiveCall& call);

void WriteCall(const CollectiveCall& call, PacketHeader& header);
// nullopt: impossible fields.
std::optional<CollectiveCall> ReadCall(const PacketHeader& header);

// What one rank adds to the group's balance for `count` elements from rank `source` to rank
// `target`: as sender this number, as receiver its negative. Over all ranks the balances add up to
// 0 (modulo 2^64) when every receiver expects what its sender has; to something else, but for one
// case in 2^64, when some pair disagrees. So each rank learns of every pair, for 8 bytes.
uint64_t CountBalance(int source, int target, int64_t count);

}  // namespace longhaul
