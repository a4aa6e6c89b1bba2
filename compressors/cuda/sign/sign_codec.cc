// `sign1`, `sign1-2level`, `sign1-rms` (compressors/families/sign.h) on a device.
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "compressors/cuda/families.h"
#include "compressors/cuda/fixed_frame.h"
#include "compressors/cuda/sign/sign_launch.h"
#include "compressors/frame/codec_frame.h"

namespace longhaul {
namespace {

constexpr std::array<std::string_view, 3> kNames = {"sign1", "sign1-rms",
                                                    "sign1-2level"};  // by SignLevels

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
  void Seal(ConstTensor x, uint64_t, std::span<std::byte> frame) const override {
    const Places places = PlacesOf(x.shape);
    const size_t blocks_end = 2 * places.row_blocks * x.shape.rows;
    if (places.high_at > kFrameHeaderBytes) {
      std::memset(frame.data() + kFrameHeaderBytes + blocks_end, 0,
                  places.high_at - kFrameHeaderBytes - blocks_end);
    }
    std::memset(frame.data() + places.high_at + blocks_end, 0,
                places.bits_at - places.high_at - blocks_end);
    SealFrame({.codec = id(),
               .dtype = x.dtype,
               .block = kSignBlock,
               .param0 = 1,
               .shape = x.shape,
               .payload_bytes = frame.size() - kFrameHeaderBytes},
              frame);
  }
  absl::StatusOr<FrameHeader> Open(std::span<const std::byte> frame, ConstTensor x) const override {
    auto header = OpenFrame(name(), id(), frame, x.shape);
    if (!header.ok()) return header;
    if (frame.size() != host().MaxFrameBytes(x.shape, x.dtype) || header->block != kSignBlock ||
        header->param0 != 1) {
      return absl::DataLossError(fmt::format("{}: {} bytes of block {} for shape {}", name(),
                                             frame.size(), header->block, ToString(x.shape)));
    }
    return header;
  }
  absl::Status EncodeFault(uint64_t fault) const override {
    if (fault == 1) return NotFiniteError(name());
    return absl::InvalidArgumentError(fmt::format("{}: a block's sum is beyond fp32", name()));
  }
  absl::Status DecodeFault() const override {
    return absl::DataLossError(fmt::format("{}: a scale is Inf or NaN", name()));
  }

 private:
  struct Places {
    size_t row_blocks, row_bytes, high_at, bits_at;
  };
  // The bits end the frame, and the levels precede them.
  Places PlacesOf(Shape shape) const {
    const size_t row_blocks = (shape.cols + kSignBlock - 1) / kSignBlock;
    const size_t row_bytes = (shape.cols + 7) / 8;  // a full block has 32
    const size_t section = AlignUp8(2 * shape.rows * row_blocks);
    const size_t high_at =
        kFrameHeaderBytes + (levels_ == SignLevels::kTwoLevel ? section : size_t{0});
    return {row_blocks, row_bytes, high_at, high_at + section};
  }
  int Launch(const SignLaunchTable& table, std::byte* x, DType dtype, Shape shape,
             const Work& work) const {
    const Places places = PlacesOf(shape);
    const SignRun run = {.x = x,
                         .rows = shape.rows,
                         .cols = shape.cols,
                         .low = work.frame + kFrameHeaderBytes,
                         .high = work.frame + places.high_at,
                         .bits = work.frame + places.bits_at,
                         .row_blocks = places.row_blocks,
                         .row_bytes = places.row_bytes,
                         .report = work.report()};
    return table[static_cast<size_t>(levels_)][static_cast<size_t>(dtype)](run, work.stream);
  }

  const SignLevels levels_;
};

}  // namespace

std::shared_ptr<const DeviceCodec> NewDeviceSign(HostCodec host, const DeviceApi& device) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (host->name() == kNames[i]) {
      return std::make_shared<DeviceSignCodec>(std::move(host), device, static_cast<SignLevels>(i));
    }
  }
  return nullptr;
}

}  // namespace longhaul
