// The block quantizers (compressors/families/block_codec.h) on a device.
#include "compressors/families/block_codec.h"

#include <fmt/format.h>

#include <cstring>

#include "compressors/cuda/block/block_launch.h"
#include "compressors/cuda/families.h"
#include "compressors/cuda/fixed_frame.h"
#include "compressors/families/stochastic.h"
#include "compressors/frame/codec_frame.h"

namespace longhaul {
namespace {

class DeviceBlockCodec final : public FixedFrameCodec {
 public:
  DeviceBlockCodec(HostCodec host, const DeviceApi& device, BlockCodecForm form)
      : FixedFrameCodec(std::move(host), device), form_(form) {}

 protected:
  int LaunchEncode(ConstTensor x, uint64_t seed, const Work& work) const override {
    const BlockLaunchTable& table =
        form_.stochastic ? device().blocks->encode_stochastic : device().blocks->encode;
    // The kernels of encoding do not write through x.
    auto* values = static_cast<std::byte*>(const_cast<void*>(x.values));
    return Launcher(table, x.dtype)(RunOf(x.shape, values, seed, work), work.stream);
  }
  int LaunchDecode(const FrameHeader& header, Tensor x, const Work& work) const override {
    BlockRun run = RunOf(x.shape, static_cast<std::byte*>(x.values), header.seed, work);
    run.stochastic = (header.flags & kFlagStochastic) != 0;
    return Launcher(device().blocks->decode, x.dtype)(run, work.stream);
  }
  void Seal(ConstTensor x, uint64_t seed, std::span<std::byte> frame) const override;
  absl::StatusOr<FrameHeader> Open(std::span<const std::byte> frame, ConstTensor x) const override;
  absl::Status EncodeFault(uint64_t fault) const override;
  absl::Status DecodeFault() const override {
    return absl::DataLossError(
        fmt::format("{}: a scale, zero point or code is not a finite number", name()));
  }

 private:
  // Where the sections begin in a frame.
  struct Places {
    size_t scales_end, zeros_at, zeros_end, codes_at, code_bytes;
  };
  Places PlacesOf(Shape shape) const {
    const BlockSectionBytes bytes = *SectionsOf(host(), shape);
    const size_t scales_end = kFrameHeaderBytes + bytes.scales, zeros_at = AlignUp8(scales_end);
    const size_t zeros_end = zeros_at + bytes.zeros;
    return {scales_end, zeros_at, zeros_end, AlignUp8(zeros_end), bytes.codes};
  }
  BlockLaunch Launcher(const BlockLaunchTable& table, DType dtype) const {
    return table[SchemeIndex(form_.scheme)][static_cast<size_t>(dtype)];
  }
  BlockRun RunOf(Shape shape, std::byte* x, uint64_t seed, const Work& work) const;

  const BlockCodecForm form_;
};

BlockRun DeviceBlockCodec::RunOf(Shape shape, std::byte* x, uint64_t seed, const Work& work) const {
  const Places places = PlacesOf(shape);
  const auto block = static_cast<uint64_t>(form_.scheme.block);
  // Without short blocks all rows are one.
  const bool one_row = shape.cols % block == 0;
  const uint64_t rows = one_row ? 1 : shape.rows, cols = shape.elements() / rows;
  return {.x = x,
          .rows = rows,
          .cols = cols,
          .scales = work.frame + kFrameHeaderBytes,
          .zeros = work.frame + places.zeros_at,
          .codes = work.frame + places.codes_at,
          .row_blocks = (cols + block - 1) / block,
          .row_code_bytes = places.code_bytes / rows,
          .seed = seed,
          .stochastic = form_.stochastic,
          .report = work.report()};
}

void DeviceBlockCodec::Seal(ConstTensor x, uint64_t seed, std::span<std::byte> frame) const {
  const Places places = PlacesOf(x.shape);
  std::memset(frame.data() + places.scales_end, 0, places.zeros_at - places.scales_end);
  std::memset(frame.data() + places.zeros_end, 0, places.codes_at - places.zeros_end);
  SealFrame({.codec = id(),
             .dtype = x.dtype,
             .flags = form_.stochastic ? uint16_t{kFlagStochastic} : uint16_t{0},
             .block = static_cast<uint32_t>(form_.scheme.block),
             .param0 = static_cast<uint32_t>(form_.scheme.bits),
             .shape = x.shape,
             .seed = form_.stochastic ? seed : 0,
             .payload_bytes = frame.size() - kFrameHeaderBytes},
            frame);
}

absl::StatusOr<FrameHeader> DeviceBlockCodec::Open(std::span<const std::byte> frame,
                                                   ConstTensor x) const {
  const bool noisy = CanRoundStochastically(form_.scheme);
  auto header =
      OpenFrame(name(), id(), frame, x.shape, noisy ? uint16_t{kFlagStochastic} : uint16_t{0});
  if (!header.ok()) return header;
  if (header->block != static_cast<uint32_t>(form_.scheme.block) ||
      header->param0 != static_cast<uint32_t>(form_.scheme.bits) ||
      frame.size() != host().MaxFrameBytes(x.shape, x.dtype)) {
    return absl::DataLossError(fmt::format("{}: {} bytes of block {}, {} bits for shape {}", name(),
                                           frame.size(), header->block, header->param0,
                                           ToString(x.shape)));
  }
  return header;
}

absl::Status DeviceBlockCodec::EncodeFault(uint64_t fault) const {
  if (fault == static_cast<uint64_t>(BlockFault::kRange)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: max - min of a block is beyond fp32", name()));
  }
  if (form_.scheme.rotation == Rotation::kNone) return NotFiniteError(name());
  return absl::InvalidArgumentError(
      fmt::format("{}: NaN or Inf in the tensor, or a rotated block beyond fp32", name()));
}

}  // namespace

std::shared_ptr<const DeviceCodec> NewDeviceBlocks(HostCodec host, const DeviceApi& device) {
  const auto form = BlockFormOf(*host);
  if (!form) return nullptr;
  return std::make_shared<DeviceBlockCodec>(std::move(host), device, *form);
}

}  // namespace longhaul
