// `nvfp4` and `e3m0` (compressors/families/fp4.h) on a device.
#include "compressors/families/fp4.h"

#include <cstring>

#include "compressors/cuda/block/scaled_fp4_launch.h"
#include "compressors/cuda/fixed_frame.h"
#include "compressors/families/fp4_layout.h"
#include "compressors/kernels/block_scheme.h"

namespace longhaul {
namespace {

class DeviceScaledFp4Codec final : public FixedFrameCodec {
 public:
  DeviceScaledFp4Codec(HostCodec host, const DeviceApi& device, ScaledFp4 form)
      : FixedFrameCodec(std::move(host), device), form_(form) {}

 protected:
  size_t ScratchBytes(Shape) const override { return sizeof(uint32_t); }
  int LaunchEncode(ConstTensor x, uint64_t, const Work& work) const override {
    if (const int error = device().fill(work.scratch, 0, sizeof(uint32_t), work.stream)) {
      return error;
    }
    // The kernels of encoding do not write through x.
    auto* values = static_cast<std::byte*>(const_cast<void*>(x.values));
    return Launcher(device().scaled_fp4->encode, x.dtype)(RunOf(x.shape, values, work),
                                                          work.stream);
  }
  int LaunchDecode(const FrameHeader&, Tensor x, const Work& work) const override {
    return Launcher(device().scaled_fp4->decode, x.dtype)(
        RunOf(x.shape, static_cast<std::byte*>(x.values), work), work.stream);
  }
  absl::Status CheckPayload(std::span<const std::byte> frame, Shape) const override {
    float t, s;
    std::memcpy(&t, frame.data() + kFrameHeaderBytes, 4);
    if (Nv() && !(t >= 0 && t <= kMostNvScale)) {
      return Corrupt("the tensor's scale is no number that an encoder writes");
    }
    if (!Nv() && !ReadScale(kE3m0, frame.data() + kFrameHeaderBytes, s)) {
      return Corrupt("the scale is Inf or NaN");
    }
    return absl::OkStatus();
  }
  absl::Status DecodeFault() const override { return Corrupt("a block's scale is no number"); }

 private:
  bool Nv() const { return form_ == ScaledFp4::kNv; }
  ScaledFp4Launch Launcher(const ScaledFp4Table& table, DType dtype) const {
    return table[static_cast<size_t>(form_)][static_cast<size_t>(dtype)];
  }
  ScaledFp4Run RunOf(Shape shape, std::byte* x, const Work& work) const {
    ScaledFp4Run run = {.x = x,
                        .rows = 1,
                        .cols = shape.elements(),
                        .head = work.frame + kFrameHeaderBytes,
                        .scales = work.frame + kFrameHeaderBytes + 8,
                        .codes = work.frame + kFrameHeaderBytes + 8,
                        .row_blocks = 0,
                        .row_code_bytes = PackedBytes(shape.elements(), 4),
                        .top = reinterpret_cast<uint32_t*>(work.scratch),
                        .report = work.report()};
    if (Nv()) {
      const NvLayout layout(shape);
      run.rows = layout.rows;
      run.cols = layout.cols;
      run.codes = work.frame + layout.codes_at;
      run.row_blocks = layout.row_blocks;
      run.row_code_bytes = layout.row_bytes;
    }
    return run;
  }

  static constexpr BlockScheme kE3m0 = {4, Grid::kE3M0};
  const ScaledFp4 form_;
};

}  // namespace

std::shared_ptr<const DeviceCodec> NewDeviceScaledFp4(HostCodec host, const DeviceApi& device) {
  const auto form = ScaledFp4Of(*host);
  if (!form) return nullptr;
  return std::make_shared<DeviceScaledFp4Codec>(std::move(host), device, *form);
}

}  // namespace longhaul
