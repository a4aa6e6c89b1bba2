// `nvfp4` (compressors/families/fp4.h) on a device.
#include "compressors/families/fp4.h"

#include <cstring>

#include "compressors/cuda/block/scaled_fp4_launch.h"
#include "compressors/cuda/fixed_frame.h"
#include "compressors/families/fp4_layout.h"

namespace longhaul {
namespace {

class DeviceScaledFp4Codec final : public FixedFrameCodec {
 public:
  using FixedFrameCodec::FixedFrameCodec;

 protected:
  size_t ScratchBytes(Shape) const override { return sizeof(uint32_t); }
  int LaunchEncode(ConstTensor x, uint64_t, const Work& work) const override {
    if (const int error = device().fill(work.scratch, 0, sizeof(uint32_t), work.stream)) {
      return error;
    }
    // The kernels of encoding do not write through x.
    auto* values = static_cast<std::byte*>(const_cast<void*>(x.values));
    return device().scaled_fp4->encode[static_cast<size_t>(x.dtype)](RunOf(x.shape, values, work),
                                                                     work.stream);
  }
  int LaunchDecode(const FrameHeader&, Tensor x, const Work& work) const override {
    return device().scaled_fp4->decode[static_cast<size_t>(x.dtype)](
        RunOf(x.shape, static_cast<std::byte*>(x.values), work), work.stream);
  }
  absl::Status CheckPayload(std::span<const std::byte> frame, Shape) const override {
    float t;
    std::memcpy(&t, frame.data() + kFrameHeaderBytes, 4);
    if (t >= 0 && t <= kMostNvScale) return absl::OkStatus();
    return Corrupt("the tensor's scale is no number that an encoder writes");
  }
  absl::Status DecodeFault() const override { return Corrupt("a block's scale is no number"); }

 private:
  static ScaledFp4Run RunOf(Shape shape, std::byte* x, const Work& work) {
    const NvLayout layout(shape);
    return {.x = x,
            .rows = layout.rows,
            .cols = layout.cols,
            .head = work.frame + kFrameHeaderBytes,
            .scales = work.frame + kFrameHeaderBytes + 8,
            .codes = work.frame + layout.codes_at,
            .row_blocks = layout.row_blocks,
            .row_code_bytes = layout.row_bytes,
            .top = reinterpret_cast<uint32_t*>(work.scratch),
            .report = work.report()};
  }
};

}  // namespace

std::shared_ptr<const DeviceCodec> NewDeviceScaledFp4(HostCodec host, const DeviceApi& device) {
  if (!IsNvFp4(*host)) return nullptr;
  return std::make_shared<DeviceScaledFp4Codec>(std::move(host), device);
}

}  // namespace longhaul
