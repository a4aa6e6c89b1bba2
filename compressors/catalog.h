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
//   a family's          "powersgd-r{r}"
//   a control           "gauss-{NMSE}", e.g. "gauss-0.01"
//   an alias or preset  Aliases(), e.g. "sparseloco", "16x"
// and may end in "+sr" (stochastic rounding, block codecs only), "+ef" or "+ef95" (error feedback),
// "+ef21" (a state at both ends) or "+mc" (momentum correction), and, last of all, in "+sat" (NaN
// and Inf are replaced instead of refused).
// NotFound: unknown or ill-formed name; the message says what is wrong with it and names the
// nearest known ones.
absl::StatusOr<std::shared_ptr<const Codec>> MakeCodec(std::string_view name);

// The same with kernels of one instruction set, for tests and benchmarks; frames do not differ.
// FailedPrecondition: this CPU lacks it.
absl::StatusOr<std::shared_ptr<const Codec>> MakeCodec(std::string_view name, Isa isa);

// Every plain name of the catalogue, in its order (no "+" compositions).
std::vector<std::string> CodecNames();

// One name of every family that takes numbers, to list it by.
std::vector<std::string> ParametricExamples();

// Names that stand for others.
struct CodecAlias {
  std::string_view name;
  std::string_view parts;
};
std::span<const CodecAlias> CodecAliases();

// The largest frame that any codec of that id may make of such a tensor, header included, for
// whoever must bound a length before it sees the frame; 0 for an unknown id.
size_t MaxFrameBytesOf(uint16_t id, Shape shape, DType dtype);

// Decodes a frame without a state: the frame says of which codec. Errors as Codec::Decode, among
// them InvalidArgument for a difference, which FrameReceiver is for; DataLoss when the id is
// unknown. Thread safe.
absl::Status DecodeFrame(std::span<const std::byte> frame, Tensor x);

// The codec that a frame says it is of; nothing of the frame is checked but that there is one.
absl::StatusOr<std::shared_ptr<const Codec>> CodecOfFrame(std::span<const std::byte> frame);

// Whether the receiving end must keep a state for this codec (aqsgd*, +ef21). Who decodes one
// sender's frames without keeping one must refuse such a codec.
bool DecodingNeedsState(const Codec& codec);

// The name of the codec that made the frame ("+ef" is not in it: the wire is the same). DataLoss
// for a frame that is not sound, or of an unknown codec.
absl::StatusOr<std::string> NameOfFrame(std::span<const std::byte> frame);

// What a frame says of itself, for people: name, header fields, sections and their sizes, one per
// line. Errors as NameOfFrame.
absl::StatusOr<std::string> DescribeFrame(std::span<const std::byte> frame);

}  // namespace longhaul
