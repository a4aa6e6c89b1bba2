// `stat2` .. `stat8-rows` (compressors/families/statistical.h) on a device.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "compressors/cuda/families.h"
#include "compressors/cuda/fixed_frame.h"
#include "compressors/cuda/stat/stat_launch.h"
#include "compressors/frame/codec_frame.h"
#include "compressors/numbers/bit_pack.h"
#include "compressors/numbers/tree_sum.h"

namespace longhaul {
namespace {

class DeviceStatCodec final : public FixedFrameCodec {
 public:
  DeviceStatCodec(HostCodec host, const DeviceApi& device, int bits, bool by_rows)
      : FixedFrameCodec(std::move(host), device), bits_(bits), by_rows_(by_rows) {}

 protected:
  size_t ScratchBytes(Shape shape) const override {
    return Tables(shape) * (16 * Bins() + 4 * (2 * Chunks(shape) + 1));
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
  void Seal(ConstTensor x, uint64_t, std::span<std::byte> frame) const override {
    const size_t tables_end = kFrameHeaderBytes + Tables(x.shape) * TableBytes();
    std::memset(frame.data() + tables_end, 0, AlignUp8(tables_end) - tables_end);
    SealFrame({.codec = id(),
               .dtype = x.dtype,
               .param0 = static_cast<uint32_t>(bits_),
               .shape = x.shape,
               .payload_bytes = frame.size() - kFrameHeaderBytes},
              frame);
  }
  absl::StatusOr<FrameHeader> Open(std::span<const std::byte> frame, ConstTensor x) const override;
  absl::Status EncodeFault(uint64_t fault) const override {
    if (fault == 1) return NotFiniteError(name());
    return absl::InvalidArgumentError(fmt::format("{}: a sum is beyond fp32", name()));
  }
  absl::Status DecodeFault() const override { return absl::OkStatus(); }  // Open sees it all

 private:
  uint64_t Tables(Shape shape) const { return by_rows_ ? shape.rows : 1; }
  uint64_t Elements(Shape shape) const { return by_rows_ ? shape.cols : shape.elements(); }
  uint64_t Chunks(Shape shape) const { return (Elements(shape) + kSumChunk - 1) / kSumChunk; }
  size_t Bins() const { return size_t{1} << bits_; }
  size_t TableBytes() const { return 4 * (1 + Bins()); }
  StatLaunch Launcher(const StatTable& table, DType dtype) const {
    return table[std::bit_width(static_cast<unsigned>(bits_)) - 2][static_cast<size_t>(dtype)];
  }
  StatRun RunOf(Shape shape, std::byte* x, const Work& work) const {
    const uint64_t tables = Tables(shape);
    auto* sums = reinterpret_cast<uint64_t*>(work.scratch);
    auto* totals = reinterpret_cast<ChunkTotals*>(sums + 2 * tables * Bins());
    return {.x = x,
            .tables = tables,
            .elements = Elements(shape),
            .bins = static_cast<int>(Bins()),
            .heads = work.frame + kFrameHeaderBytes,
            .codes = work.frame + kFrameHeaderBytes + AlignUp8(tables * TableBytes()),
            .code_bytes = PackedBytes(Elements(shape), bits_),
            .units = sums,
            .counts = sums + tables * Bins(),
            .totals = totals,
            .inverse = reinterpret_cast<float*>(totals + tables * Chunks(shape)),
            .report = work.report()};
  }

  const int bits_;
  const bool by_rows_;
};

absl::StatusOr<FrameHeader> DeviceStatCodec::Open(std::span<const std::byte> frame,
                                                  ConstTensor x) const {
  auto header = OpenFrame(name(), id(), frame, x.shape);
  if (!header.ok()) return header;
  if (frame.size() != host().MaxFrameBytes(x.shape, x.dtype) || header->block != 0 ||
      header->param0 != static_cast<uint32_t>(bits_)) {
    return absl::DataLossError(fmt::format("{}: {} bytes, {} bits for shape {}", name(),
                                           frame.size(), header->param0, ToString(x.shape)));
  }
  for (size_t t = 0; t < Tables(x.shape); ++t) {
    const std::byte* at = frame.data() + kFrameHeaderBytes + t * TableBytes();
    float mu, offset;
    std::memcpy(&mu, at, 4);
    for (size_t bin = 0; bin < Bins(); ++bin) {
      std::memcpy(&offset, at + 4 + 4 * bin, 4);
      if (!std::isfinite(offset + mu)) {
        return absl::DataLossError(fmt::format("{}: a table holds Inf or NaN", name()));
      }
    }
  }
  return header;
}

}  // namespace

std::shared_ptr<const DeviceCodec> NewDeviceStat(HostCodec host, const DeviceApi& device) {
  for (const int bits : {2, 4, 8}) {
    const std::string plain = fmt::format("stat{}", bits);
    const bool by_rows = host->name() == plain + "-rows";
    if (!by_rows && host->name() != plain) continue;
    return std::make_shared<DeviceStatCodec>(std::move(host), device, bits, by_rows);
  }
  return nullptr;
}

}  // namespace longhaul
