// The block quantizers (compressors/families/block_codec.h) on a device.
#include "compressors/families/block_codec.h"

#include "compressors/cuda/block/block_launch.h"
#include "compressors/cuda/fixed_frame.h"
#include "compressors/families/block_layout.h"

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
  absl::Status DecodeFault() const override {
    return Corrupt("a scale, zero point or code is not a finite number");
  }

 private:
  BlockLaunch Launcher(const BlockLaunchTable& table, DType dtype) const {
    return table[SchemeIndex(form_.scheme)][static_cast<size_t>(dtype)];
  }
  BlockRun RunOf(Shape shape, std::byte* x, uint64_t seed, const Work& work) const;

  const BlockCodecForm form_;
};

BlockRun DeviceBlockCodec::RunOf(Shape shape, std::byte* x, uint64_t seed, const Work& work) const {
  const BlockLayout layout(form_.scheme, shape);
  return {.x = x,
          .rows = layout.rows,
          .cols = layout.cols,
          .scales = work.frame + kFrameHeaderBytes,
          .zeros = work.frame + layout.zeros_at,
          .codes = work.frame + layout.codes_at,
          .row_blocks = layout.row_blocks,
          .row_code_bytes = layout.row_code_bytes,
          .seed = seed,
          .stochastic = form_.stochastic,
          .report = work.report()};
}

}  // namespace

std::shared_ptr<const DeviceCodec> NewDeviceBlocks(HostCodec host, const DeviceApi& device) {
  const auto form = BlockFormOf(*host);
  if (!form) return nullptr;
  return std::make_shared<DeviceBlockCodec>(std::move(host), device, *form);
}

}  // namespace longhaul
