#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "compressors/codec.h"
#include "compressors/isa.h"
#include "compressors/kernels/block_scheme.h"

namespace longhaul {

// The codec of one block scheme. Blocks run along the last dimension; a row ends with a short
// block with metadata of its own, never padded and never rotated.
//
// Payload, each section 8-byte aligned, blocks in row order:
//   scales   [blocks] bf16, or one byte E8M0
//   zeros    [blocks] bf16, affine grids only
//   codes    full block: block k / 8 bytes, short block of c: ceil(c k / 8) bytes; bit_pack.h's bit
//   string
std::shared_ptr<const Codec> NewBlockCodec(std::string_view name, uint16_t id, BlockScheme scheme,
                                           Isa isa);

// The sections of a frame of `shape`, in bytes without the gaps.
struct BlockSectionBytes {
  size_t scales, zeros, codes;
};
// nullopt when `codec` is no block codec.
std::optional<BlockSectionBytes> SectionsOf(const Codec& codec, Shape shape);

// What a block codec is made of (cuda/block does the same on a device); nullopt when it is none.
struct BlockCodecForm {
  BlockScheme scheme;
  bool stochastic;
};
std::optional<BlockCodecForm> BlockFormOf(const Codec& codec);

// The same codec with stochastic rounding (stochastic.h); nullptr when it is no block codec or its
// grid has no stochastic form. Every block codec decodes both.
std::shared_ptr<const Codec> WithStochasticRounding(const Codec& codec, std::string_view name);

}  // namespace longhaul
