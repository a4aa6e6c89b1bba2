#pragma once

#include <cstdint>

namespace longhaul {

// A bijection of [0, size) chosen by `key`: a four-round Feistel network over the next even number
// of bits, walked until it lands below `size`. Constant memory; about two evaluations per call.
// The same on every host.
uint64_t Permute(uint64_t index, uint64_t size, uint64_t key);

// Which of `windows` windows is number `index` of the order of `seed`, where every epoch is another
// permutation of them all.
int64_t TrainWindow(uint64_t seed, int64_t index, int64_t windows);

}  // namespace longhaul
