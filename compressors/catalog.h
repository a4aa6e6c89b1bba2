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

// The codec of that name ("int8-b64", "int4-b64-h64+ef", ...); cheap, stateless, shareable.
// NotFound: unknown name; the message lists the known ones, nearest first.
absl::StatusOr<std::shared_ptr<const Codec>> MakeCodec(std::string_view name);

// The same with kernels of one instruction set, for tests and benchmarks; frames do not differ.
// FailedPrecondition: this CPU lacks it.
absl::StatusOr<std::shared_ptr<const Codec>> MakeCodec(std::string_view name, Isa isa);

// Every plain name of the catalogue, in its order (no "+" compositions).
std::vector<std::string> CodecNames();

// Decodes a frame of any stateless-to-decode codec: the frame says which. Errors as Codec::Decode;
// DataLoss when the id is unknown. Thread safe.
absl::Status DecodeFrame(std::span<const std::byte> frame, Tensor x);

}  // namespace longhaul
