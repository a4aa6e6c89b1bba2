#pragma once

#include <optional>
#include <span>

#include "absl/status/status.h"
#include "compressors/codec.h"
#include "compressors/states/mirror.h"

namespace longhaul {

// The receiving end of one stream of frames (one tensor or boundary, direction and micro-batch
// slot): decodes each by what it says of itself, as DecodeFrame does, and keeps the state that
// +ef21 and aqsgd* want at this end. Not thread safe.
class FrameReceiver {
 public:
  // Errors as Codec::Decode; DataLoss when the id is unknown. On error nothing has changed.
  absl::Status Decode(std::span<const std::byte> frame, Tensor x);

  // Checkpointing: bytes() is 0 as long as no frame wanted a state. Load: DataLoss for what Save
  // did not write, nothing changed.
  size_t bytes() const { return mirror_ ? mirror_->bytes() : 0; }
  void Save(std::span<std::byte> out) const;
  absl::Status Load(std::span<const std::byte> in);

 private:
  std::optional<Mirror> mirror_;
};

}  // namespace longhaul
