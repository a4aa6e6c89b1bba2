#include "plugin/core/counter_table.h"

#include <algorithm>
#include <utility>

#include "compressors/numbers/noise.h"

namespace longhaul {
namespace {

constexpr size_t kKeptSamples = 4096;  // of a group whose samples nobody takes

}  // namespace

CounterTable::CounterTable(int rank, int size) : rank_(rank) {
  for (int peer = 0; peer < size; ++peer) {
    for (const bool sent : {true, false}) {
      CrossingCounters& row = rows_.emplace_back();
      row.peer = peer;
      row.sent = sent;
      row.codec = "none";
    }
  }
}

CrossingCounters& CounterTable::Row(int peer, Direction direction) {
  return rows_[2 * static_cast<size_t>(peer) + (direction == Direction::kSent ? 0 : 1)];
}

void CounterTable::Count(int peer, Direction direction, const Message& message) {
  const PacketHeader& header = message.header;
  const std::lock_guard lock(mu_);
  CrossingCounters& row = Row(peer, direction);
  if (header.space == ChannelSpace::kCollective) {
    ++row.collective_messages;
    row.collective_bytes += message.message_bytes;
    return;
  }
  if (!message.codec.empty()) row.codec = message.codec;
  ++row.tensors;
  row.device_tensors += message.on_device;
  row.elements += static_cast<int64_t>(header.elements);
  row.payload_bytes += static_cast<int64_t>(header.message_bytes);
  row.message_bytes += message.message_bytes;
  (direction == Direction::kSent ? row.encode : row.decode) += message.coding;
  // Sequence and tag give the order within channels; across channels the sum does not depend on
  // who overtook whom on the way.
  row.payload_hash += FoldSeed(
      {static_cast<uint64_t>(header.tag), header.sequence, message.crc, header.message_bytes});
}

void CounterTable::CountNmse(int peer, double nmse) {
  const std::lock_guard lock(mu_);
  CrossingCounters& row = Row(peer, Direction::kSent);
  ++row.nmse_samples;
  row.nmse_sum += nmse;
  row.nmse_max = std::max(row.nmse_max, nmse);
  if (samples_.size() < kKeptSamples) samples_.push_back({peer, nmse});
}

std::vector<NmseSample> CounterTable::TakeNmse() {
  const std::lock_guard lock(mu_);
  return std::exchange(samples_, {});
}

std::vector<CrossingCounters> CounterTable::Read() const {
  const std::lock_guard lock(mu_);
  std::vector<CrossingCounters> rows;
  for (const CrossingCounters& row : rows_) {
    if (row.peer != rank_) rows.push_back(row);
  }
  return rows;
}

}  // namespace longhaul
