#include "plugin/core/counter_table.h"

#include <algorithm>
#include <utility>

#include "compressors/numbers/noise.h"

namespace longhaul {
namespace {

constexpr size_t kKeptSamples = 4096;  // of a group whose samples nobody takes

constexpr std::string_view kNoCodec = "none";

// A list of names with one more, unless it has it.
std::string WithCodec(const std::string& names, const std::string& codec) {
  if (names == kNoCodec) return codec;
  const bool there = (", " + names + ", ").find(", " + codec + ", ") != std::string::npos;
  return there ? names : names + ", " + codec;
}

}  // namespace

std::vector<CrossingCounters> TotalsByPeer(const std::vector<CrossingCounters>& rows) {
  std::vector<CrossingCounters> totals;
  for (const CrossingCounters& row : rows) {
    const auto same = [&](const CrossingCounters& t) {
      return t.peer == row.peer && t.sent == row.sent;
    };
    const auto found = std::find_if(totals.begin(), totals.end(), same);
    if (found == totals.end()) {
      totals.push_back(row);
      totals.back().kind = std::nullopt;
      continue;
    }
    CrossingCounters& total = *found;
    if (row.codec != kNoCodec) total.codec = WithCodec(total.codec, row.codec);
    total.tensors += row.tensors;
    total.elements += row.elements;
    total.payload_bytes += row.payload_bytes;
    total.message_bytes += row.message_bytes;
    total.device_tensors += row.device_tensors;
    total.crossed_tensors += row.crossed_tensors;
    total.encode += row.encode;
    total.decode += row.decode;
    total.nmse_samples += row.nmse_samples;
    total.nmse_sum += row.nmse_sum;
    total.nmse_max = std::max(total.nmse_max, row.nmse_max);
    total.payload_hash += row.payload_hash;
    total.collective_messages += row.collective_messages;
    total.collective_bytes += row.collective_bytes;
  }
  return totals;
}

std::vector<CrossingCounters> TotalsByPeerAndKind(const std::vector<CrossingCounters>& rows) {
  std::vector<CrossingCounters> totals;
  for (const TensorKind kind : {TensorKind::kActivation, TensorKind::kGradient}) {
    std::vector<CrossingCounters> own;
    for (const CrossingCounters& row : rows) {
      if (row.kind == kind) own.push_back(row);
    }
    for (CrossingCounters& total : TotalsByPeer(own)) {
      total.kind = kind;
      totals.push_back(std::move(total));
    }
  }
  return totals;
}

CounterTable::CounterTable(int rank, int size) : rank_(rank) {
  for (int peer = 0; peer < size; ++peer) {
    for (const Direction direction : {Direction::kSent, Direction::kReceived}) {
      Row(peer, direction, "", std::nullopt);
    }
  }
}

CrossingCounters& CounterTable::Row(int peer, Direction direction, std::string_view codec,
                                    std::optional<TensorKind> kind) {
  const int kind_key = kind ? 1 + static_cast<int>(*kind) : 0;
  const auto [at, fresh] =
      rows_.try_emplace(Key{peer, direction, kind_key, codec}, CrossingCounters{});
  CrossingCounters& row = at->second;
  if (fresh) {
    row.peer = peer;
    row.sent = direction == Direction::kSent;
    row.codec = codec.empty() ? kNoCodec : codec;
    row.kind = kind;
  }
  return row;
}

void CounterTable::Count(int peer, Direction direction, const Message& message) {
  const PacketHeader& header = message.header;
  const std::lock_guard lock(mu_);
  if (header.space == ChannelSpace::kCollective) {
    CrossingCounters& row = Row(peer, direction, message.codec, std::nullopt);
    ++row.collective_messages;
    row.collective_bytes += message.message_bytes;
    return;
  }
  CrossingCounters& row = Row(peer, direction, message.codec, message.kind);
  ++row.tensors;
  row.device_tensors += message.on_device;
  row.crossed_tensors += message.crossed;
  row.elements += static_cast<int64_t>(header.elements);
  row.payload_bytes += static_cast<int64_t>(header.message_bytes);
  row.message_bytes += message.message_bytes;
  (direction == Direction::kSent ? row.encode : row.decode) += message.coding;
  // Sequence and tag give the order within channels; across channels the sum does not depend on
  // who overtook whom on the way.
  row.payload_hash += FoldSeed(
      {static_cast<uint64_t>(header.tag), header.sequence, message.crc, header.message_bytes});
}

void CounterTable::CountNmse(int peer, std::string_view codec, std::optional<TensorKind> kind,
                             double nmse) {
  const std::lock_guard lock(mu_);
  CrossingCounters& row = Row(peer, Direction::kSent, codec, kind);
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
  for (const auto& [key, row] : rows_) {
    if (row.peer != rank_) rows.push_back(row);
  }
  return rows;
}

void CounterTable::CountShort(int64_t elements) {
  const std::lock_guard lock(mu_);
  longest_of_short_ = std::max(longest_of_short_, elements);
}

int64_t CounterTable::LongestOfShort() const {
  const std::lock_guard lock(mu_);
  const auto encoded = [](const auto& entry) {
    const CrossingCounters& row = entry.second;
    return row.codec != kNoCodec && row.tensors + row.collective_messages > 0;
  };
  return std::any_of(rows_.begin(), rows_.end(), encoded) ? 0 : longest_of_short_;
}

}  // namespace longhaul
