#pragma once

#include <memory>
#include <string_view>

#include "compressors/codec.h"
#include "compressors/isa.h"

namespace longhaul {

// `diloco-x` (DiLoCoX, arXiv 2506.21263): the factors of powersgd.h with P and Q as int4-b64, error
// feedback, and a rank that follows the tensor: r = ceil(mean over 8 rounds of exp(entropy of the
// normalised column energies of Q)), between 1 and the largest rank up to 16 whose factors are less
// than half of the tensor. All columns are followed, the r strongest are sent.
//
// Payload: u64 bytes of P's frame; the frame of P^T [r, rows]; the frame of Q^T [r, cols], both
// int4-b64. param0 = r, param1 = cols. A tensor that factors would not halve is sent as fp32 with
// both zero. 4.25 r (rows + cols) / (rows cols) bits per element. State: 4 (n + 16 cols + 9) bytes.
std::shared_ptr<const Codec> NewDilocoXCodec(std::string_view name, uint16_t id, Isa isa);

}  // namespace longhaul
