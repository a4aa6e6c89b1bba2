#include "compressors/cuda/fixed_frame.h"

#include "base/status_macros.h"
#include "compressors/cuda/team/slot.h"
#include "compressors/frame/codec_frame.h"

namespace longhaul {

SlotBytes FixedFrameCodec::Needs(Shape shape, DType dtype) const {
  const size_t frame = host_->MaxFrameBytes(shape, dtype);
  return {frame, AlignUp256(frame)};
}

absl::Status FixedFrameCodec::Corrupt(std::string_view what) const {
  return absl::DataLossError(std::string(name()) + ": " + std::string(what));
}

absl::Status FixedFrameCodec::EnqueueEncode(ConstTensor x, uint64_t seed, const DeviceSlot& slot,
                                            CudaStream stream) const {
  RETURN_IF_ERROR(CheckEncodeArguments(name(), x, 0, 0));
  RETURN_IF_ERROR(CheckSlot(name(), Needs(x.shape, x.dtype), slot));
  const size_t bytes = host_->MaxFrameBytes(x.shape, x.dtype);
  const Work work = {slot.device, stream};
  int error = device_.fill(slot.device, 0xFF, sizeof(DeviceReport), stream);
  if (error == 0) error = LaunchEncode(x, seed, work);
  if (error == 0) error = device_.to_host(slot.device, slot.host, bytes, stream);
  return DeviceStatus(name(), device_, error);
}

absl::StatusOr<size_t> FixedFrameCodec::FinishEncode(ConstTensor x, uint64_t seed,
                                                     const DeviceSlot& slot) const {
  if (const uint64_t fault = ReportedFault(slot.host); fault != kNoFault) {
    return host_->FaultStatus(static_cast<BlockFault>(fault & 3));
  }
  const size_t bytes = host_->MaxFrameBytes(x.shape, x.dtype);
  host_->ZeroGaps(x.shape, slot.host);
  SealFrame(host_->HeaderFor(x, seed), {slot.host, bytes});
  return bytes;
}

absl::Status FixedFrameCodec::EnqueueDecode(std::span<const std::byte> frame,
                                            const DeviceSlot& slot, Tensor x,
                                            CudaStream stream) const {
  ASSIGN_OR_RETURN(const FrameHeader header, host_->Open(frame, x.shape));
  const SlotBytes needs = {kFrameHeaderBytes, AlignUp256(frame.size())};
  RETURN_IF_ERROR(CheckSlot(name(), needs, slot));
  const Work work = {slot.device, stream};
  int error = device_.fill(slot.device, 0xFF, sizeof(DeviceReport), stream);
  if (error == 0) {
    error = device_.to_device(frame.data() + kFrameHeaderBytes, slot.device + kFrameHeaderBytes,
                              frame.size() - kFrameHeaderBytes, stream);
  }
  if (error == 0) error = LaunchDecode(header, x, work);
  if (error == 0) error = device_.to_host(slot.device, slot.host, sizeof(DeviceReport), stream);
  return DeviceStatus(name(), device_, error);
}

absl::Status FixedFrameCodec::FinishDecode(const DeviceSlot& slot) const {
  return ReportedFault(slot.host) == kNoFault ? absl::OkStatus() : DecodeFault();
}

}  // namespace longhaul
