// `tah4-g64`, `tah4-g32` (compressors/families/tah.h) on a device. The kernels decide and quantize;
// where a tile's bits stand in the frame depends on all tiles before it, so the host puts them
// there, and takes them apart.
#include "compressors/families/tah.h"

#include <cstring>

#include "compressors/cuda/families.h"
#include "compressors/cuda/tah/tah_launch.h"
#include "compressors/cuda/team/slot.h"
#include "compressors/families/tah_layout.h"
#include "compressors/frame/codec_frame.h"
#include "compressors/numbers/bit_stream.h"

namespace longhaul {
namespace {

// What travels between device and host: a place per tile in each of these.
struct Staging {
  explicit Staging(const TahTiles& tiles)
      : pivots(sizeof(DeviceReport)),
        wide(pivots + AlignUp8(tiles.count)),
        scales(wide + AlignUp8(tiles.count)),
        zeros(scales + AlignUp8(2 * tiles.count)),
        codes(zeros + AlignUp8(2 * tiles.count)),
        end(codes + AlignUp8(tiles.count * tiles.tile / 2)) {}
  size_t pivots, wide, scales, zeros, codes, end;
};

class DeviceTahCodec final : public DeviceCodec {
 public:
  DeviceTahCodec(HostCodec host, const DeviceApi& device, size_t tile)
      : host_(std::move(host)), device_(device), tile_(tile) {}

  std::string_view name() const override { return host_->name(); }
  uint16_t id() const override { return host_->id(); }
  SlotBytes Needs(Shape shape, DType dtype) const override {
    const TahTiles tiles(shape, tile_);
    const size_t staged = Staging(tiles).end;
    return {AlignUp256(host_->MaxFrameBytes(shape, dtype)) + staged, staged + 4 * tiles.count};
  }
  absl::Status EnqueueEncode(ConstTensor x, uint64_t seed, const DeviceSlot& slot,
                             CudaStream stream) const override;
  absl::StatusOr<size_t> FinishEncode(ConstTensor x, uint64_t seed,
                                      const DeviceSlot& slot) const override;
  absl::Status EnqueueDecode(std::span<const std::byte> frame, const DeviceSlot& slot, Tensor x,
                             CudaStream stream) const override;
  absl::Status FinishDecode(const DeviceSlot& slot) const override {
    return ReportedFault(slot.host) == kNoFault ? absl::OkStatus()
                                                : Corrupt("a scale or zero point is Inf or NaN");
  }

 private:
  absl::Status Corrupt(const char* what) const {
    return absl::DataLossError(std::string(name()) + ": " + what);
  }
  TahRun RunOf(const TahTiles& tiles, Shape shape, std::byte* x, std::byte* memory) const;
  TahLaunch Launcher(const TahTable& table, DType dtype) const {
    return table[tile_ == 64][static_cast<size_t>(dtype)];
  }
  TahLayout Assemble(const TahTiles& tiles, const std::byte* staged, std::byte* frame) const;
  bool TakeApart(const TahTiles& tiles, std::span<const std::byte> frame, std::byte* staged) const;

  const HostCodec host_;
  const DeviceApi& device_;
  const size_t tile_;
};

TahRun DeviceTahCodec::RunOf(const TahTiles& tiles, Shape shape, std::byte* x,
                             std::byte* memory) const {
  const Staging staging(tiles);
  return {.x = x,
          .rows = shape.rows,
          .cols = shape.cols,
          .per_row = tiles.per_row,
          .wide_per_row = tiles.wide_per_row(),
          .entropy = reinterpret_cast<uint32_t*>(memory + staging.end),
          .pivots = memory + staging.pivots,
          .wide = memory + staging.wide,
          .scales = memory + staging.scales,
          .zeros = memory + staging.zeros,
          .codes = memory + staging.codes,
          .report = reinterpret_cast<DeviceReport*>(memory)};
}

absl::Status DeviceTahCodec::EnqueueEncode(ConstTensor x, uint64_t, const DeviceSlot& slot,
                                           CudaStream stream) const {
  if (absl::Status s = CheckEncodeArguments(name(), x, 0, 0); !s.ok()) return s;
  if (absl::Status s = CheckSlot(name(), Needs(x.shape, x.dtype), slot); !s.ok()) return s;
  const TahTiles tiles(x.shape, tile_);
  if (tiles.per_row > UINT32_MAX) return RangeError(name(), "the number of tiles");
  // The kernels of encoding do not write through x.
  auto* values = static_cast<std::byte*>(const_cast<void*>(x.values));
  const TahRun run = RunOf(tiles, x.shape, values, slot.device);
  int error = device_.fill(slot.device, 0xFF, sizeof(DeviceReport), stream);
  if (error == 0) error = Launcher(device_.tah->encode, x.dtype)(run, stream);
  if (error == 0) {
    const size_t frame_bytes = AlignUp256(host_->MaxFrameBytes(x.shape, x.dtype));
    error = device_.to_host(slot.device, slot.host + frame_bytes, Staging(tiles).end, stream);
  }
  return DeviceStatus(name(), device_, error);
}

// All sections but the header.
TahLayout DeviceTahCodec::Assemble(const TahTiles& tiles, const std::byte* staged,
                                   std::byte* frame) const {
  const Staging from(tiles);
  size_t rotated = 0, code_bytes[2] = {};
  for (size_t t = 0; t < tiles.count; ++t) {
    const bool wide = staged[from.wide + t] != std::byte{0};
    rotated += staged[from.pivots + t] != std::byte{kTahNotRotated};
    code_bytes[wide] += TahCodeBytes(tiles, t, wide);
  }
  const TahLayout to(tiles, rotated, code_bytes[0], code_bytes[1]);
  std::memset(frame + kFrameHeaderBytes, 0, to.codes_at[0] - kFrameHeaderBytes);
  std::memcpy(frame + to.scales_at, staged + from.scales, 2 * tiles.count);
  std::memcpy(frame + to.zeros_at, staged + from.zeros, 2 * tiles.count);
  BitWriter pivots(frame + to.pivots_at);
  std::byte* codes[2] = {frame + to.codes_at[0], frame + to.codes_at[1]};
  for (size_t t = 0; t < tiles.count; ++t) {
    const bool wide = staged[from.wide + t] != std::byte{0};
    const std::byte pivot = staged[from.pivots + t];
    if (wide) SetTahBit(frame + kFrameHeaderBytes, t);
    if (pivot != std::byte{kTahNotRotated}) {
      SetTahBit(frame + to.rotated_at, t);
      pivots.Put(static_cast<uint32_t>(pivot), tiles.pivot_bits());
    }
    const size_t bytes = TahCodeBytes(tiles, t, wide);
    std::memcpy(codes[wide], staged + from.codes + t * tile_ / 2, bytes);
    codes[wide] += bytes;
  }
  pivots.Finish();
  return to;
}

absl::StatusOr<size_t> DeviceTahCodec::FinishEncode(ConstTensor x, uint64_t,
                                                    const DeviceSlot& slot) const {
  const std::byte* staged = slot.host + AlignUp256(host_->MaxFrameBytes(x.shape, x.dtype));
  if (const uint64_t fault = ReportedFault(staged); fault != kNoFault) {
    return (fault & 3) == 1 ? NotFiniteError(name()) : RangeError(name(), "the range of a tile");
  }
  const size_t bytes = Assemble(TahTiles(x.shape, tile_), staged, slot.host).frame_bytes;
  SealFrame(TahHeader(id(), x, tile_, bytes), {slot.host, bytes});
  return bytes;
}

// The inverse of Assemble, of hostile bytes; false when they do not fit.
bool DeviceTahCodec::TakeApart(const TahTiles& tiles, std::span<const std::byte> frame,
                               std::byte* staged) const {
  const std::optional<TahLayout> from = TahLayoutOf(tiles, frame);
  if (!from) return false;
  const Staging to(tiles);
  std::memcpy(staged + to.scales, frame.data() + from->scales_at, 2 * tiles.count);
  std::memcpy(staged + to.zeros, frame.data() + from->zeros_at, 2 * tiles.count);
  BitReader pivots(frame.subspan(from->pivots_at, from->pivot_bytes));
  const std::byte* codes[2] = {frame.data() + from->codes_at[0], frame.data() + from->codes_at[1]};
  for (size_t t = 0; t < tiles.count; ++t) {
    const bool wide = TahBit(frame.data() + kFrameHeaderBytes, t);
    uint32_t pivot = kTahNotRotated;
    if (TahBit(frame.data() + from->rotated_at, t) && !pivots.Get(tiles.pivot_bits(), pivot))
      return false;
    staged[to.pivots + t] = static_cast<std::byte>(pivot);
    staged[to.wide + t] = static_cast<std::byte>(wide);
    const size_t bytes = TahCodeBytes(tiles, t, wide);
    std::memcpy(staged + to.codes + t * tile_ / 2, codes[wide], bytes);
    codes[wide] += bytes;
  }
  return pivots.AtEnd();
}

absl::Status DeviceTahCodec::EnqueueDecode(std::span<const std::byte> frame, const DeviceSlot& slot,
                                           Tensor x, CudaStream stream) const {
  const auto header = OpenFrame(name(), id(), frame, x.shape);
  if (!header.ok()) return header.status();
  const TahTiles tiles(x.shape, tile_);
  const size_t staged = Staging(tiles).end;
  if (absl::Status s = CheckSlot(name(), {staged, staged}, slot); !s.ok()) return s;
  if (!IsTahHeader(*header, tile_) || !TakeApart(tiles, frame, slot.host)) {
    return Corrupt("bytes, maps or fields do not fit the shape");
  }
  const TahRun run = RunOf(tiles, x.shape, static_cast<std::byte*>(x.values), slot.device);
  constexpr size_t kReport = sizeof(DeviceReport);
  int error = device_.fill(slot.device, 0xFF, kReport, stream);
  if (error == 0) {
    error = device_.to_device(slot.host + kReport, slot.device + kReport, staged - kReport, stream);
  }
  if (error == 0) error = Launcher(device_.tah->decode, x.dtype)(run, stream);
  if (error == 0) error = device_.to_host(slot.device, slot.host, sizeof(DeviceReport), stream);
  return DeviceStatus(name(), device_, error);
}

}  // namespace

std::shared_ptr<const DeviceCodec> NewDeviceTah(HostCodec host, const DeviceApi& device) {
  const size_t tile = TahTileOf(*host);
  if (tile == 0) return nullptr;
  return std::make_shared<DeviceTahCodec>(std::move(host), device, tile);
}

}  // namespace longhaul
