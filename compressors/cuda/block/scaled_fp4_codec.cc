// `nvfp4` and `e3m0` (compressors/families/fp4.h) on a device.
#include <fmt/format.h>

#include <cstring>

#include "compressors/cuda/block/scaled_fp4_launch.h"
#include "compressors/cuda/families.h"
#include "compressors/cuda/fixed_frame.h"
#include "compressors/frame/codec_frame.h"
#include "compressors/kernels/block_scheme.h"

namespace longhaul {
namespace {

constexpr uint32_t kNvBlock = 16;
constexpr float kMostNvScale = 0x1.fffffep127f / (448.0f * 6.0f) * 1.000001f;  // fp4.cc

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
  void Seal(ConstTensor x, uint64_t, std::span<std::byte> frame) const override {
    if (Nv()) {
      const size_t scales_end = kFrameHeaderBytes + 8 + x.shape.rows * RowBlocks(x.shape);
      std::memset(frame.data() + scales_end, 0, AlignUp8(scales_end) - scales_end);
    }
    SealFrame({.codec = id(),
               .dtype = x.dtype,
               .block = Nv() ? kNvBlock : 0,
               .param0 = 4,
               .shape = x.shape,
               .payload_bytes = frame.size() - kFrameHeaderBytes},
              frame);
  }
  absl::StatusOr<FrameHeader> Open(std::span<const std::byte> frame, ConstTensor x) const override {
    auto header = OpenFrame(name(), id(), frame, x.shape);
    if (!header.ok()) return header;
    const bool fits = frame.size() == host().MaxFrameBytes(x.shape, x.dtype) &&
                      header->block == (Nv() ? kNvBlock : 0) && header->param0 == 4;
    if (Nv() && !fits) return Corrupt("bytes or fields do not fit the shape");
    if (Nv() && !(TensorScale(frame) >= 0 && TensorScale(frame) <= kMostNvScale)) {
      return Corrupt("the tensor's scale is no number that an encoder writes");
    }
    if (!Nv() && (!fits || !GoodScale(frame))) {
      return Corrupt("bytes, scale or fields do not fit the shape");
    }
    return header;
  }
  absl::Status DecodeFault() const override { return Corrupt("a block's scale is no number"); }

 private:
  bool Nv() const { return form_ == ScaledFp4::kNv; }
  absl::Status Corrupt(const char* what) const {
    return absl::DataLossError(fmt::format("{}: {}", name(), what));
  }
  static bool GoodScale(std::span<const std::byte> frame) {
    float s;
    return ReadScale(kE3m0, frame.data() + kFrameHeaderBytes, s);
  }
  static uint64_t RowBlocks(Shape shape) { return (shape.cols + kNvBlock - 1) / kNvBlock; }
  static float TensorScale(std::span<const std::byte> frame) {
    float t;
    std::memcpy(&t, frame.data() + kFrameHeaderBytes, 4);
    return t;
  }
  ScaledFp4Launch Launcher(const ScaledFp4Table& table, DType dtype) const {
    return table[static_cast<size_t>(form_)][static_cast<size_t>(dtype)];
  }
  // The codes end the frame.
  ScaledFp4Run RunOf(Shape shape, std::byte* x, const Work& work) const {
    const uint64_t rows = Nv() ? shape.rows : 1, cols = shape.elements() / rows;
    const uint64_t row_blocks = Nv() ? RowBlocks(shape) : 0;
    const size_t scales_at = kFrameHeaderBytes + 8;
    return {.x = x,
            .rows = rows,
            .cols = cols,
            .head = work.frame + kFrameHeaderBytes,
            .scales = work.frame + scales_at,
            .codes = work.frame + scales_at + AlignUp8(rows * row_blocks),
            .row_blocks = row_blocks,
            .row_code_bytes = (cols + 1) / 2,
            .top = reinterpret_cast<uint32_t*>(work.scratch),
            .report = work.report()};
  }

  static constexpr BlockScheme kE3m0 = {4, Grid::kE3M0};
  const ScaledFp4 form_;
};

}  // namespace

std::shared_ptr<const DeviceCodec> NewDeviceScaledFp4(HostCodec host, const DeviceApi& device) {
  if (host->name() != "nvfp4" && host->name() != "e3m0") return nullptr;
  const ScaledFp4 form = host->name() == "nvfp4" ? ScaledFp4::kNv : ScaledFp4::kE3m0;
  return std::make_shared<DeviceScaledFp4Codec>(std::move(host), device, form);
}

}  // namespace longhaul
