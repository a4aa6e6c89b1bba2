#include "compressors/frame_receiver.h"

#include "base/status_macros.h"
#include "compressors/catalog.h"
#include "compressors/frame/frame.h"

namespace longhaul {

absl::Status FrameReceiver::Decode(std::span<const std::byte> frame, Tensor x) {
  ASSIGN_OR_RETURN(const auto codec, CodecOfFrame(frame));
  const auto want = codec->NewDecoderState({1, 1});
  if (want == nullptr) return codec->Decode(frame, nullptr, x);
  const Mirror::Kind kind = dynamic_cast<const Mirror&>(*want).kind();
  if (mirror_ && mirror_->kind() == kind && mirror_->shape() == x.shape) {
    return codec->Decode(frame, &*mirror_, x);
  }
  // A lying frame must not cost memory for a mirror: only values fill a new one.
  if ((PeekHeader(frame).flags & kFlagFirstVisit) == 0) {
    return codec->Decode(frame, nullptr, x);
  }
  Mirror fresh(kind, x.shape);
  RETURN_IF_ERROR(codec->Decode(frame, &fresh, x));
  mirror_.emplace(std::move(fresh));
  return absl::OkStatus();
}

void FrameReceiver::Save(std::span<std::byte> out) const {
  if (mirror_) mirror_->Save(out);
}

absl::Status FrameReceiver::Load(std::span<const std::byte> in) {
  if (in.empty()) {
    mirror_.reset();
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(Mirror saved, Mirror::Restore(in));
  mirror_.emplace(std::move(saved));
  return absl::OkStatus();
}

}  // namespace longhaul
