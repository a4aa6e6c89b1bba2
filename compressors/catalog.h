#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compressors/codec.h"
#include "compressors/isa.h"

namespace longhaul {

// The codec of that name; cheap, stateless, shareable. A name is one of
//   a plain name        CodecNames(), e.g. "int8-b64"
//   a selection         "topk-{k}of{C}+VALUES", "randk-{k}of{C}+VALUES", VALUES a plain name
//   an alias or preset  Aliases(), e.g. "sparseloco", "16x"
// and may end in "+sr" (stochastic rounding, block codecs only), "+ef" or "+ef95" (error feedback)
// or "+mc" (momentum correction).
// NotFound: unknown or ill-formed name; the message says what is wrong with it and lists the known
// ones, nearest first.
absl::StatusOr<std::shared_ptr<const Codec>> MakeCodec(std::string_view name);

// The same with kernels of one instruction set, for tests and benchmarks; frames do not differ.
// FailedPrecondition: this CPU lacks it.
absl::StatusOr<std::shared_ptr<const Codec>> MakeCodec(std::string_view name, Isa isa);

// Every plain name of the catalogue, in its order (no "+" compositions).
std::vector<std::string> CodecNames();

// Names that stand for others.
struct CodecAlias {
  std::string_view name;
  std::string_view parts;
};
std::span<const CodecAlias> CodecAliases();

// The largest frame that any codec of that id may make of such a tensor, header included, for
// whoever must bound a length before it sees the frame; 0 for an unknown id.
size_t MaxFrameBytesOf(uint16_t id, Shape shape, DType dtype);

// Decodes a frame of any stateless-to-decode codec: the frame says which. Errors as Codec::Decode;
// DataLoss when the id is unknown. Thread safe.
absl::Status DecodeFrame(std::span<const std::byte> frame, Tensor x);

// The name of the codec that made the frame ("+ef" is not in it: the wire is the same). DataLoss
// for a frame that is not sound, or of an unknown codec.
absl::StatusOr<std::string> NameOfFrame(std::span<const std::byte> frame);

// What a frame says of itself, for people: name, header fields, sections and their sizes, one per
// line. Errors as NameOfFrame.
absl::StatusOr<std::string> DescribeFrame(std::span<const std::byte> frame);

}  // namespace longhaul
