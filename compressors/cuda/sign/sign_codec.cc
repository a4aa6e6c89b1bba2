// `sign1`, `sign1-2level`, `sign1-rms` (compressors/families/sign.h) on a device.
#include "compressors/families/sign.h"

#include "compressors/cuda/fixed_frame.h"
#include "compressors/cuda/sign/sign_launch.h"
#include "compressors/families/sign_layout.h"

namespace longhaul {
namespace {

class DeviceSignCodec final : public FixedFrameCodec {
 public:
  DeviceSignCodec(HostCodec host, const DeviceApi& device, SignLevels levels)
      : FixedFrameCodec(std::move(host), device), levels_(levels) {}

 protected:
  int LaunchEncode(ConstTensor x, uint64_t, const Work& work) const override {
    // The kernels of encoding do not write through x.
    auto* values = static_cast<std::byte*>(const_cast<void*>(x.values));
    return Launch(device().signs->encode, values, x.dtype, x.shape, work);
  }
  int LaunchDecode(const FrameHeader&, Tensor x, const Work& work) const override {
    return Launch(device().signs->decode, static_cast<std::byte*>(x.values), x.dtype, x.shape,
                  work);
  }
  absl::Status DecodeFault() const override { return Corrupt("a scale is Inf or NaN"); }

 private:
  int Launch(const SignLaunchTable& table, std::byte* x, DType dtype, Shape shape,
             const Work& work) const {
    const SignLayout layout(levels_, shape);
    const SignRun run = {.x = x,
                         .rows = shape.rows,
                         .cols = shape.cols,
                         .low = work.frame + kFrameHeaderBytes,
                         .high = work.frame + layout.high_at,
                         .bits = work.frame + layout.bits_at,
                         .row_blocks = layout.row_blocks,
                         .row_bytes = layout.row_bytes,
                         .report = work.report()};
    return table[static_cast<size_t>(levels_)][static_cast<size_t>(dtype)](run, work.stream);
  }

  const SignLevels levels_;
};

}  // namespace

std::shared_ptr<const DeviceCodec> NewDeviceSign(HostCodec host, const DeviceApi& device) {
  const auto levels = SignLevelsOf(*host);
  if (!levels) return nullptr;
  return std::make_shared<DeviceSignCodec>(std::move(host), device, *levels);
}

}  // namespace longhaul
