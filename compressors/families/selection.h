#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "compressors/codec.h"
#include "compressors/frame/frame.h"
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
  Selection selection = Selection::kTopK;
  uint32_t kept = 0;   // k, 1 <= k <= chunk
  uint32_t chunk = 0;  // C, 2 <= C <= 65536
  friend bool operator==(const SelectionSpec&, const SelectionSpec&) = default;
};

constexpr uint16_t kTopKId = 0x70;
constexpr uint16_t kRandKId = 0x71;

// "topk-64of4096", "randk-952of4096"; nothing when it is neither or a number is out of range.
std::optional<SelectionSpec> ParseSelection(std::string_view text);
std::string ToString(const SelectionSpec& spec);

// What a frame of either id says of itself; nothing when its numbers are out of range.
std::optional<SelectionSpec> SelectionOf(const FrameHeader& header);

// What a selection codec is made of (cuda/selection does the same on a device); nullopt when
// `codec` is none.
struct SelectionForm {
  SelectionSpec spec;
  Gain gain;
  std::shared_ptr<const Codec> values;
};
std::optional<SelectionForm> SelectionFormOf(const Codec& codec);

// What error feedback asks of a sparse codec beside Codec: sum = x + decay e is formed chunk by
// chunk where it is looked at, never as a whole, and what the frame leaves over differs from it
// only at the kept elements.
class ResidualEncoder {
 public:
  virtual ~ResidualEncoder() = default;
  // As Encode of the sum; e: [elements], which becomes what the frame leaves over, or stays as it
  // was on error.
  virtual absl::StatusOr<size_t> EncodeResidual(ConstTensor x, float decay, float* e, uint64_t seed,
                                                std::span<std::byte> frame) const = 0;
};

// `topk-{k}of{C}+VALUES`, `randk-{k}of{C}+VALUES`: chunks of C run along each row; a row's short
// chunk of c keeps max(1, (2kc + C) / (2C)). The kept values of all chunks, in index order, are one
// tensor [1, K] for the value codec, which must be stateless. Decodes to zeros elsewhere. TopK is
// biased, with contraction k/C.
//
// Payload: u64 bytes of the indices (0 for RandK); the indices in the smallest of the codings of
// index_coding.h, named in the flags, param1 = Rice r; the value codec's own frame. block = C,
// param0 = k. Bits per element: (k/C)(value + index) + 576/n.
std::shared_ptr<const Codec> NewSelectionCodec(std::string_view name, SelectionSpec spec, Gain gain,
                                               std::shared_ptr<const Codec> values, Isa isa);

// The largest frame of any selection and values: every element kept in fp32 with an index of 16
// bits; two headers, a table of the values.
inline size_t MaxSelectionFrameBytes(Shape shape) {
  return 2 * kFrameHeaderBytes + 4096 + 6 * shape.elements() + 8 * shape.rows;
}

}  // namespace longhaul
