#pragma once

#include <memory>
#include <string_view>

#include "compressors/codec.h"
#include "compressors/isa.h"

namespace longhaul {

// `stat2`, `stat4`, `stat8` (MuLoCo, arXiv 2505.23725; hivemind's UNIFORM_8BIT; INTELLECT-1): per
// tensor, mu = mean, sigma with n - 1, 2^k bins of step = 6 sigma / 2^k (1 if sigma is 0) around
// mu, q = clamp(round((x - mu) / step + 2^(k-1)), 0, 2^k - 1), halves up, table[q] = mean of x - mu
// in the bin (0 if empty), xhat = table[q] + mu. Clips at 3 sigma: poor on heavy tails without
// error feedback. For k = 2 the edges lie at -2.25, -0.75 and 0.75 sigma, asymmetric by design.
//
// Payload: mu and table, f32 x (1 + 2^k); then the codes, ceil(n k / 8) bytes. k bits per element +
// 32 (2^k + 1). Sums for mu and
// sigma (stat_moments.h) in the order of tree_sum.h; positions, and so a bin's sum, are whole
// numbers of units of step / 2^8 (2^15 for k = 8, stat_units.h), so its order does not matter.
// InvalidArgument when a sum is beyond fp32.
template <int kBits>
std::shared_ptr<const Codec> NewStatCodec(std::string_view name, uint16_t id, Isa isa);

}  // namespace longhaul
