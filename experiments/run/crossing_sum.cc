#include "experiments/run/crossing_sum.h"

#include <algorithm>
#include <optional>

namespace longhaul {
namespace {

std::optional<int64_t> Sum(std::optional<int64_t> a, std::optional<int64_t> b) {
  return a && b ? std::optional<int64_t>(*a + *b) : std::nullopt;
}

void AddNmse(const CrossingRow& earlier, CrossingRow& row) {
  if (earlier.nmse_samples == 0) return;
  const auto sum = [](const CrossingRow& c) {
    return c.nmse_mean.value_or(0) * static_cast<double>(c.nmse_samples);
  };
  const double total = sum(earlier) + sum(row);
  row.nmse_samples += earlier.nmse_samples;
  row.nmse_mean = total / static_cast<double>(row.nmse_samples);
  row.nmse_max = std::max(row.nmse_max.value_or(0), earlier.nmse_max.value_or(0));
}

}  // namespace

void AddCounts(const CrossingRow& earlier, CrossingRow& row) {
  row.tensors += earlier.tensors;
  row.elements += earlier.elements;
  row.payload_bytes += earlier.payload_bytes;
  row.message_bytes += earlier.message_bytes;
  row.kernel_tx_bytes = Sum(row.kernel_tx_bytes, earlier.kernel_tx_bytes);
  row.kernel_rx_bytes = Sum(row.kernel_rx_bytes, earlier.kernel_rx_bytes);
  row.encode_s += earlier.encode_s;
  row.decode_s += earlier.decode_s;
  row.payload_hash += earlier.payload_hash;
  AddNmse(earlier, row);
}

void AddEarlierCounts(std::span<const CrossingRow> earlier, std::vector<CrossingRow>& since) {
  for (const CrossingRow& before : earlier) {
    const auto same = std::find_if(since.begin(), since.end(), [&](const CrossingRow& c) {
      return c.src_rank == before.src_rank && c.dst_rank == before.dst_rank &&
             c.direction == before.direction;
    });
    if (same == since.end()) {
      since.push_back(before);
    } else {
      AddCounts(before, *same);
    }
  }
}

}  // namespace longhaul
