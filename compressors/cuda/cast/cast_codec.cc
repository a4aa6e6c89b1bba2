// `none`, `identity`, `bf16`, `fp16` (compressors/families/cast.h) on a device.
#include <fmt/format.h>

#include <optional>

#include "compressors/cuda/cast/cast_launch.h"
#include "compressors/cuda/families.h"
#include "compressors/cuda/fixed_frame.h"
#include "compressors/frame/codec_frame.h"

namespace longhaul {
namespace {

class DeviceCastCodec final : public FixedFrameCodec {
 public:
  // wire: nothing = the source's dtype.
  DeviceCastCodec(HostCodec host, const DeviceApi& device, std::optional<DType> wire)
      : FixedFrameCodec(std::move(host), device), wire_(wire) {}

 protected:
  int LaunchEncode(ConstTensor x, uint64_t, const Work& work) const override {
    return Launch(static_cast<const std::byte*>(x.values), x.dtype, work.frame + kFrameHeaderBytes,
                  wire_.value_or(x.dtype), x.shape, work);
  }
  int LaunchDecode(const FrameHeader& header, Tensor x, const Work& work) const override {
    return Launch(work.frame + kFrameHeaderBytes, wire_.value_or(header.dtype),
                  static_cast<std::byte*>(x.values), x.dtype, x.shape, work);
  }
  void Seal(ConstTensor x, uint64_t, std::span<std::byte> frame) const override {
    SealFrame({.codec = id(),
               .dtype = x.dtype,
               .shape = x.shape,
               .payload_bytes = frame.size() - kFrameHeaderBytes},
              frame);
  }
  absl::StatusOr<FrameHeader> Open(std::span<const std::byte> frame, ConstTensor x) const override {
    auto header = OpenFrame(name(), id(), frame, x.shape);
    if (header.ok() && frame.size() != host().MaxFrameBytes(x.shape, header->dtype)) {
      return absl::DataLossError(
          fmt::format("{}: {} bytes for shape {}", name(), frame.size(), ToString(x.shape)));
    }
    return header;
  }
  // Any bytes are elements.
  absl::Status DecodeFault() const override { return absl::OkStatus(); }

 private:
  int Launch(const std::byte* in, DType from, std::byte* out, DType to, Shape shape,
             const Work& work) const {
    const CastLaunch cast =
        device().casts->cast[static_cast<size_t>(from)][static_cast<size_t>(to)];
    return cast({in, out, shape.elements(), work.report()}, work.stream);
  }

  const std::optional<DType> wire_;
};

}  // namespace

std::shared_ptr<const DeviceCodec> NewDeviceCast(HostCodec host, const DeviceApi& device) {
  std::optional<DType> wire;
  if (host->name() == "bf16") {
    wire = DType::kBF16;
  } else if (host->name() == "fp16") {
    wire = DType::kF16;
  } else if (host->name() != "none" && host->name() != "identity") {
    return nullptr;
  }
  return std::make_shared<DeviceCastCodec>(std::move(host), device, wire);
}

}  // namespace longhaul
