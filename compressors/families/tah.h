#pragma once

#include <memory>
#include <string_view>

#include "compressors/codec.h"
#include "compressors/isa.h"

namespace longhaul {

// `tah4-g64`, `tah4-g32` (TAH-Quant, arXiv 2506.01352; reimplemented from the paper): a row is a
// token, cut into tiles of G channels and perhaps a short one.
//   1. Entropy of each tile, H = -sum p log2 p with p = |x| / sum|x|.
//   2. Within the row the round(0.8 T) of T tiles with the largest H get four bits, the others
//      three (ties: the lower tile).
//   3. A full tile whose largest |x| is at least twice its second is rotated: its element 0 and the
//      largest (the pivot, the first on ties) change places, then H_G / sqrt(G). The outlier turns
//      into an offset that the zero point takes up.
//   4. Min-max with bf16 zero point and scale (minmax.h).
//
// Payload: widths, one bit per tile (1 = four bits); rotated, one bit per tile; pivots, log2 G bits
// per rotated tile; s [tiles] bf16; z [tiles] bf16; codes of the three-bit tiles, then of the
// four-bit ones, ceil(c b / 8) bytes each. 3.8 + 34/G + (share rotated) log2(G)/G bits per element.
// InvalidArgument when a range or a rotated tile is beyond fp32.
template <int kTile>
std::shared_ptr<const Codec> NewTahCodec(std::string_view name, uint16_t id, Isa isa);

}  // namespace longhaul
