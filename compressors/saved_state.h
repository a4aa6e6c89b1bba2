#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compressors/codec.h"

// A CodecState as checkpoints keep it: the bytes of CodecState::Save behind what says whose they
// are, and a checksum. Little-endian:
//
//   off  type  field
//     0  u32   magic        bytes 'L' 'H' 'S' '1'
//     4  u32   name_bytes
//     8  u64   rows
//    16  u64   cols
//    24  u64   state_bytes
//    32        the codec's name, then the state
//   end  u32   CRC32C of everything before it
namespace longhaul {

std::vector<std::byte> SaveState(const Codec& codec, const CodecState& state);

struct SavedState {
  std::string codec;
  Shape shape;
  std::span<const std::byte> state;  // borrowed from what was parsed
};

// DataLoss: truncated, too long, corrupt, not a saved state.
absl::StatusOr<SavedState> ParseSavedState(std::span<const std::byte> saved);

// A state for `codec`'s Encode, of the saved shape. InvalidArgument: of another codec, or of one
// that keeps none. DataLoss: what CodecState::Load refuses. Takes no more memory than a state of
// `saved.state.size()` bytes needs.
absl::StatusOr<std::unique_ptr<CodecState>> RestoreState(const Codec& codec,
                                                         const SavedState& saved);

}  // namespace longhaul
