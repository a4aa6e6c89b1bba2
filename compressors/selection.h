#pragma once

#include <memory>
#include <string_view>

#include "compressors/codec.h"
#include "compressors/isa.h"

namespace longhaul {

enum class Selection : uint8_t {
  kTopK,   // the k largest |x| of every chunk; ties: the lowest index
  kRandK,  // one element of each of k windows of a chunk, by the frame's seed: no indices are sent
};
// RandK alone: kUnbiased multiplies by the window's length, so that the expectation is x; kOne is
// for error feedback, which would amplify it.
enum class Gain : uint8_t { kUnbiased, kOne };

struct SelectionSpec {
  Selection selection;
  Gain gain;
  uint32_t kept;   // k, 1 <= k <= chunk
  uint32_t chunk;  // C, 2 <= C <= 65536
};

constexpr uint16_t kTopKId = 0x70;
constexpr uint16_t kRandKId = 0x71;

// `topk-{k}of{C}+VALUES`, `randk-{k}of{C}+VALUES`: chunks of C run along each row; a row's short
// chunk of c keeps max(1, (2kc + C) / (2C)). The kept values of all chunks, in index order, are one
// tensor [1, K] for the value codec, which must be stateless. Decodes to zeros elsewhere. Biased
// (TopK), with contraction k/C.
//
// Payload: u64 bytes of the indices (0 for RandK); the indices in the smallest of the codings of
// index_coding.h, named in the flags, param1 = Rice r; the value codec's own frame. block = C,
// param0 = k. Bits per element: (k/C)(value + index) + 576/n.
std::shared_ptr<const Codec> NewSelectionCodec(std::string_view name, SelectionSpec spec,
                                               std::shared_ptr<const Codec> values, Isa isa);

}  // namespace longhaul
