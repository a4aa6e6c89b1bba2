#include "plugin/core/collective_call.h"

#include <cstring>
#include <iterator>

#include <fmt/format.h>

#include "compressors/numbers/noise.h"

namespace longhaul {
namespace {

constexpr std::string_view kNames[] = {
    "",       "broadcast",     "allreduce", "allgather", "alltoall",         "barrier",
    "reduce", "reducescatter", "gather",    "scatter",   "monitoredbarrier", "allgatherbytes"};
static_assert(std::size(kNames) == static_cast<size_t>(kLastCollectiveKind) + 1);

template <typename T>
void Put(PacketHeader& header, size_t at, T value) {
  std::memcpy(reinterpret_cast<std::byte*>(header.dims.data()) + at, &value, sizeof(value));
}

template <typename T>
T Get(const PacketHeader& header, size_t at) {
  T value;
  std::memcpy(&value, reinterpret_cast<const std::byte*>(header.dims.data()) + at, sizeof(value));
  return value;
}

}  // namespace

std::string_view NameOf(CollectiveKind kind) { return kNames[static_cast<size_t>(kind)]; }

std::string ToString(const CollectiveCall& call) {
  const std::string what = fmt::format("{} x {}", ToString(call.type), call.count);
  std::string arguments;
  switch (call.kind) {
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kGather:
    case CollectiveKind::kScatter:
      arguments = fmt::format("root {}, {}", call.root, what);
      break;
    case CollectiveKind::kReduce:
      arguments = fmt::format("{}, root {}, {}", ToString(call.operation), call.root, what);
      break;
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduceScatter:
      arguments = fmt::format("{}, {}", ToString(call.operation), what);
      break;
    case CollectiveKind::kAllGather:
      arguments = what + " of each rank";
      break;
    case CollectiveKind::kAllToAll:
      arguments = ToString(call.type);
      break;
    case CollectiveKind::kBarrier:
    case CollectiveKind::kMonitoredBarrier:
    case CollectiveKind::kAllGatherBytes:
      break;
  }
  return fmt::format("{}({})", NameOf(call.kind), arguments);
}

void WriteCall(const CollectiveCall& call, PacketHeader& header) {
  header.rank = 0;
  header.dims = {};
  Put(header, 0, call.kind);
  Put(header, 1, static_cast<uint8_t>(call.operation));
  Put(header, 2, call.type);
  Put(header, 4, call.root);
  Put(header, 8, call.count);
  Put(header, 16, call.expected);
  Put(header, 24, call.balance);
}

std::optional<CollectiveCall> ReadCall(const PacketHeader& header) {
  const auto kind = Get<uint8_t>(header, 0), operation = Get<uint8_t>(header, 1);
  const auto type = Get<uint8_t>(header, 2), unused = Get<uint8_t>(header, 3);
  if (kind < static_cast<uint8_t>(CollectiveKind::kBroadcast) ||
      kind > static_cast<uint8_t>(kLastCollectiveKind) ||
      operation > static_cast<uint8_t>(kLastReduceOp) ||
      type > static_cast<uint8_t>(kLastElementType) || unused != 0 || header.rank != 0) {
    return std::nullopt;
  }
  return CollectiveCall{.kind = static_cast<CollectiveKind>(kind),
                        .operation = static_cast<ReduceOp>(operation),
                        .type = static_cast<ElementType>(type),
                        .root = Get<int32_t>(header, 4),
                        .count = Get<uint64_t>(header, 8),
                        .expected = Get<uint64_t>(header, 16),
                        .balance = Get<uint64_t>(header, 24)};
}

uint64_t CountBalance(int source, int target, int64_t count) {
  return FoldSeed(
      {static_cast<uint64_t>(source), static_cast<uint64_t>(target), static_cast<uint64_t>(count)});
}

}  // namespace longhaul
