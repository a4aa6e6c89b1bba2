#pragma once

#include <cstdint>

namespace longhaul {

// A bijection of [0, size) chosen by `key`: a four-round Feistel network over the next even number
// of bits, walked until it lands below `size`. Constant memory; about two evaluations per call.
// The same on every host.
uint64_t Permute(uint64_t index, uint64_t size, uint64_t key);

}  // namespace longhaul
