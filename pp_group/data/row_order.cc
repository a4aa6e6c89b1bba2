#include "pp_group/data/row_order.h"

#include <bit>

#include "compressors/numbers/noise.h"

namespace longhaul {

uint64_t Permute(uint64_t index, uint64_t size, uint64_t key) {
  if (size < 2) return index;
  const int half = (std::bit_width(size - 1) + 1) / 2;
  const uint64_t mask = (uint64_t{1} << half) - 1;
  do {
    uint64_t left = index >> half, right = index & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      const uint64_t mixed = left ^ (FoldSeed({key, round, right}) & mask);
      left = right;
      right = mixed;
    }
    index = left << half | right;
  } while (index >= size);
  return index;
}

int64_t TrainWindow(uint64_t seed, int64_t index, int64_t windows) {
  const uint64_t epoch_key = FoldSeed({seed, static_cast<uint64_t>(index / windows)});
  return static_cast<int64_t>(
      Permute(static_cast<uint64_t>(index % windows), static_cast<uint64_t>(windows), epoch_key));
}

}  // namespace longhaul
