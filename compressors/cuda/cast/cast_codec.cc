// `none`, `identity`, `bf16`, `fp16` (compressors/families/cast.h) on a device.
#include "compressors/families/cast.h"

#include "compressors/cuda/cast/cast_launch.h"
#include "compressors/cuda/fixed_frame.h"

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
  const auto form = CastFormOf(*host);  // any bytes of a frame are elements
  if (!form) return nullptr;
  return std::make_shared<DeviceCastCodec>(std::move(host), device, form->wire);
}

}  // namespace longhaul
