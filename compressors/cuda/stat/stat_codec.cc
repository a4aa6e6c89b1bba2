// `stat2` .. `stat8-rows` (compressors/families/statistical.h) on a device.
#include <bit>
#include <cmath>
#include <cstring>

#include "compressors/cuda/fixed_frame.h"
#include "compressors/cuda/stat/stat_launch.h"
#include "compressors/families/stat_layout.h"
#include "compressors/numbers/tree_sum.h"

namespace longhaul {
namespace {

class DeviceStatCodec final : public FixedFrameCodec {
 public:
  DeviceStatCodec(HostCodec host, const DeviceApi& device, StatForm form)
      : FixedFrameCodec(std::move(host), device), form_(form) {}

 protected:
  size_t ScratchBytes(Shape shape) const override {
    const StatLayout layout(form_, shape);
    return layout.tables * (16 * Bins() + 4 * (2 * Chunks(layout) + 1));
  }
  int LaunchEncode(ConstTensor x, uint64_t, const Work& work) const override {
    // The kernels of encoding do not write through x.
    auto* values = static_cast<std::byte*>(const_cast<void*>(x.values));
    return Launcher(device().stats->encode, x.dtype)(RunOf(x.shape, values, work), work.stream);
  }
  int LaunchDecode(const FrameHeader&, Tensor x, const Work& work) const override {
    return Launcher(device().stats->decode, x.dtype)(
        RunOf(x.shape, static_cast<std::byte*>(x.values), work), work.stream);
  }
  absl::Status CheckPayload(std::span<const std::byte> frame, Shape shape) const override;

 private:
  static uint64_t Chunks(const StatLayout& layout) {
    return (layout.elements + kSumChunk - 1) / kSumChunk;
  }
  size_t Bins() const { return size_t{1} << form_.bits; }
  StatLaunch Launcher(const StatTable& table, DType dtype) const {
    return table[std::bit_width(static_cast<unsigned>(form_.bits)) - 2][static_cast<size_t>(dtype)];
  }
  StatRun RunOf(Shape shape, std::byte* x, const Work& work) const {
    const StatLayout layout(form_, shape);
    auto* sums = reinterpret_cast<uint64_t*>(work.scratch);
    auto* totals = reinterpret_cast<ChunkTotals*>(sums + 2 * layout.tables * Bins());
    return {.x = x,
            .tables = layout.tables,
            .elements = layout.elements,
            .bins = static_cast<int>(Bins()),
            .heads = work.frame + kFrameHeaderBytes,
            .codes = work.frame + layout.codes_at,
            .code_bytes = layout.code_bytes,
            .units = sums,
            .counts = sums + layout.tables * Bins(),
            .totals = totals,
            .inverse = reinterpret_cast<float*>(totals + layout.tables * Chunks(layout)),
            .report = work.report()};
  }

  const StatForm form_;
};

absl::Status DeviceStatCodec::CheckPayload(std::span<const std::byte> frame, Shape shape) const {
  const StatLayout layout(form_, shape);
  for (size_t t = 0; t < layout.tables; ++t) {
    const std::byte* at = frame.data() + kFrameHeaderBytes + t * layout.table_bytes;
    float mu, offset;
    std::memcpy(&mu, at, 4);
    for (size_t bin = 0; bin < Bins(); ++bin) {
      std::memcpy(&offset, at + 4 + 4 * bin, 4);
      if (!std::isfinite(offset + mu)) return Corrupt("a table holds Inf or NaN");
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<const DeviceCodec> NewDeviceStat(HostCodec host, const DeviceApi& device) {
  const auto form = StatFormOf(*host);
  if (!form) return nullptr;
  return std::make_shared<DeviceStatCodec>(std::move(host), device, *form);
}

}  // namespace longhaul
