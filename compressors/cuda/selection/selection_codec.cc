// `topk-*` (compressors/families/selection.h) on a device: the selection and the
// value codec run there; indices are coded on the host, because their length is known only then and
// they are few.
#include "compressors/families/selection.h"

#include <fmt/format.h>

#include <cstring>

#include "base/status_macros.h"
#include "compressors/cuda/families.h"
#include "compressors/cuda/selection/selection_launch.h"
#include "compressors/cuda/team/slot.h"
#include "compressors/frame/codec_frame.h"
#include "compressors/numbers/index_coding.h"
#include "compressors/numbers/scratch.h"

namespace longhaul {
namespace {

class DeviceSelectionCodec final : public DeviceCodec {
 public:
  DeviceSelectionCodec(HostCodec host, const DeviceApi& device, SelectionForm form,
                       std::shared_ptr<const DeviceCodec> values)
      : host_(std::move(host)),
        device_(device),
        form_(std::move(form)),
        values_(std::move(values)) {}

  std::string_view name() const override { return host_->name(); }
  uint16_t id() const override { return host_->id(); }
  SlotBytes Needs(Shape shape, DType dtype) const override {
    const Places places = PlacesOf(shape, dtype);
    return {places.host_inner + places.inner.host, places.device_inner + places.inner.device};
  }
  absl::Status EnqueueEncode(ConstTensor x, uint64_t seed, const DeviceSlot& slot,
                             CudaStream stream) const override;
  absl::StatusOr<size_t> FinishEncode(ConstTensor x, uint64_t seed,
                                      const DeviceSlot& slot) const override;
  absl::Status EnqueueDecode(std::span<const std::byte> frame, const DeviceSlot& slot, Tensor x,
                             CudaStream stream) const override;
  absl::Status FinishDecode(const DeviceSlot& slot) const override {
    const absl::Status inner = values_->FinishDecode({slot.host, kFrameHeaderBytes, nullptr, 0});
    return inner.ok() ? inner : Corrupt(std::string(inner.message()));
  }

 private:
  ChunkGrid GridOf(Shape shape) const { return {shape, form_.spec.chunk, form_.spec.kept}; }

  // Device: report, indices | values | what the value codec needs.
  // Host, encoding: the frame | report, indices | what the value codec needs; decoding: the value
  // codec's report, then the indices.
  struct Places {
    size_t kept;
    size_t index_bytes;  // on their way, two bytes each
    size_t device_values, device_inner, host_report, host_inner;
    SlotBytes inner;
  };
  Places PlacesOf(Shape shape, DType dtype) const {
    Places p = {};
    p.kept = GridOf(shape).total_kept();
    p.index_bytes = 2 * p.kept;
    p.inner = values_->Needs({1, p.kept}, DType::kF32);
    p.device_values = AlignUp256(sizeof(DeviceReport) + p.index_bytes);
    p.device_inner = p.device_values + AlignUp256(4 * p.kept);
    p.host_report = AlignUp256(host_->MaxFrameBytes(shape, dtype));
    p.host_inner = p.host_report + AlignUp256(sizeof(DeviceReport) + p.index_bytes);
    return p;
  }
  SelectionRun RunOf(Shape shape, std::byte* x, const Places& places, std::byte* memory) const;
  absl::Status Corrupt(std::string_view what) const {
    return absl::DataLossError(fmt::format("{}: {}", name(), what));
  }
  absl::Status OpenIndices(std::span<const std::byte> frame, Shape shape, FrameHeader& header,
                           std::span<const std::byte>& values, std::byte* indices) const;

  const HostCodec host_;
  const DeviceApi& device_;
  const SelectionForm form_;
  const std::shared_ptr<const DeviceCodec> values_;
};

SelectionRun DeviceSelectionCodec::RunOf(Shape shape, std::byte* x, const Places& places,
                                         std::byte* memory) const {
  const ChunkGrid grid = GridOf(shape);
  return {.x = x,
          .rows = shape.rows,
          .cols = shape.cols,
          .row_chunks = grid.row_chunks(),
          .row_kept = grid.full * grid.kept + grid.tail_kept,
          .chunk = form_.spec.chunk,
          .kept = form_.spec.kept,
          .tail_kept = static_cast<uint32_t>(grid.tail_kept),
          .indices = reinterpret_cast<uint16_t*>(memory + sizeof(DeviceReport)),
          .values = reinterpret_cast<float*>(memory + places.device_values),
          .report = reinterpret_cast<DeviceReport*>(memory)};
}

absl::Status DeviceSelectionCodec::EnqueueEncode(ConstTensor x, uint64_t seed,
                                                 const DeviceSlot& slot, CudaStream stream) const {
  RETURN_IF_ERROR(CheckEncodeArguments(name(), x, 0, 0));
  RETURN_IF_ERROR(CheckSlot(name(), Needs(x.shape, x.dtype), slot));
  const Places places = PlacesOf(x.shape, x.dtype);
  // The kernels of encoding do not write through x.
  auto* values = static_cast<std::byte*>(const_cast<void*>(x.values));
  const SelectionRun run = RunOf(x.shape, values, places, slot.device);
  int error = device_.fill(slot.device, 0xFF, sizeof(DeviceReport), stream);
  if (error == 0) error = device_.selection->top_k[static_cast<size_t>(x.dtype)](run, stream);
  if (error == 0) {
    error = device_.to_host(slot.device, slot.host + places.host_report,
                            sizeof(DeviceReport) + places.index_bytes, stream);
  }
  if (error != 0) return DeviceStatus(name(), device_, error);
  return values_->EnqueueEncode({run.values, DType::kF32, {1, places.kept}}, seed,
                                {slot.host + places.host_inner, places.inner.host,
                                 slot.device + places.device_inner, places.inner.device},
                                stream);
}

absl::StatusOr<size_t> DeviceSelectionCodec::FinishEncode(ConstTensor x, uint64_t seed,
                                                          const DeviceSlot& slot) const {
  const Places places = PlacesOf(x.shape, x.dtype);
  const ChunkGrid grid = GridOf(x.shape);
  if (ReportedFault(slot.host + places.host_report) != kNoFault) return NotFiniteError(name());
  std::byte* inner = slot.host + places.host_inner;
  const absl::StatusOr<size_t> value_bytes = values_->FinishEncode(
      {nullptr, DType::kF32, {1, places.kept}}, seed, {inner, places.inner.host, nullptr, 0});
  if (!value_bytes.ok()) return value_bytes;

  const auto indices = Scratch<uint32_t, ScratchUse::kIndices>(places.kept);
  for (size_t i = 0; i < indices.size(); ++i) {
    uint16_t index;
    std::memcpy(&index, slot.host + places.host_report + sizeof(DeviceReport) + 2 * i, 2);
    indices[i] = index;
  }
  const IndexPlan plan = PlanIndices(grid, indices);
  const size_t indices_at = kFrameHeaderBytes + 8, values_at = indices_at + AlignUp8(plan.bytes);
  const uint64_t index_bytes = plan.bytes;
  std::memcpy(slot.host + kFrameHeaderBytes, &index_bytes, 8);
  std::memset(slot.host + values_at - 8, 0, values_at > indices_at ? 8 : 0);
  WriteIndices(plan, grid, indices, slot.host + indices_at);
  std::memcpy(slot.host + values_at, inner, *value_bytes);
  const size_t bytes = values_at + *value_bytes;
  SealFrame({.codec = id(),
             .value_codec = values_->id(),
             .dtype = x.dtype,
             .flags = static_cast<uint16_t>(static_cast<int>(plan.coding) << 8),
             .block = form_.spec.chunk,
             .param0 = form_.spec.kept,
             .param1 = plan.rice,
             .shape = x.shape,
             .payload_bytes = bytes - kFrameHeaderBytes},
            {slot.host, bytes});
  return bytes;
}

// Checks all but the values; `values` becomes their frame, `indices` (page-locked) two bytes each.
absl::Status DeviceSelectionCodec::OpenIndices(std::span<const std::byte> frame, Shape shape,
                                               FrameHeader& header,
                                               std::span<const std::byte>& values,
                                               std::byte* indices) const {
  ASSIGN_OR_RETURN(const auto opened, OpenFrame(name(), id(), frame, shape, kFlagIndexMask));
  header = opened;
  if (header.block != form_.spec.chunk || header.param0 != form_.spec.kept ||
      header.value_codec != values_->id()) {
    return absl::InvalidArgumentError(fmt::format("{}: frame of {} of {} with value codec 0x{:02x}",
                                                  name(), header.param0, header.block,
                                                  header.value_codec));
  }
  if (frame.size() < kFrameHeaderBytes + 8) return Corrupt("no room for its indices");
  uint64_t index_bytes;
  std::memcpy(&index_bytes, frame.data() + kFrameHeaderBytes, 8);
  const std::span<const std::byte> rest = frame.subspan(kFrameHeaderBytes + 8);
  if (index_bytes > rest.size() || AlignUp8(index_bytes) > rest.size()) {
    return Corrupt("its indices are longer than the frame");
  }
  values = rest.subspan(AlignUp8(index_bytes));
  const auto coding = static_cast<IndexCoding>((header.flags & kFlagIndexMask) >> 8);
  const ChunkGrid grid = GridOf(shape);
  const auto found = Scratch<uint32_t, ScratchUse::kIndices>(grid.total_kept());
  if (!ReadIndices(coding, header.param1, grid, rest.first(index_bytes), found)) {
    return Corrupt("its indices do not fit their chunks");
  }
  for (size_t i = 0; i < found.size(); ++i) {
    const auto index = static_cast<uint16_t>(found[i]);
    std::memcpy(indices + 2 * i, &index, 2);
  }
  return absl::OkStatus();
}

absl::Status DeviceSelectionCodec::EnqueueDecode(std::span<const std::byte> frame,
                                                 const DeviceSlot& slot, Tensor x,
                                                 CudaStream stream) const {
  FrameHeader header;
  std::span<const std::byte> values;
  // The shape is the caller's; what the frame says of it is checked before its bytes are used.
  if (x.shape.elements() == 0)
    return OpenFrame(name(), id(), frame, x.shape, kFlagIndexMask).status();
  const Places places = PlacesOf(x.shape, DType::kF32);
  const SlotBytes needs = {kFrameHeaderBytes + places.index_bytes,
                           places.device_inner + places.inner.device};
  RETURN_IF_ERROR(CheckSlot(name(), needs, slot));
  std::byte* indices = slot.host + kFrameHeaderBytes;
  RETURN_IF_ERROR(OpenIndices(frame, x.shape, header, values, indices));

  const SelectionRun run = RunOf(x.shape, static_cast<std::byte*>(x.values), places, slot.device);
  const Tensor kept = {run.values, DType::kF32, {1, places.kept}};
  const absl::Status inner = values_->EnqueueDecode(
      values,
      {slot.host, kFrameHeaderBytes, slot.device + places.device_inner, places.inner.device}, kept,
      stream);
  if (!inner.ok()) return Corrupt(std::string(inner.message()));
  int error = device_.to_device(indices, run.indices, places.index_bytes, stream);
  if (error == 0) error = device_.selection->scatter[static_cast<size_t>(x.dtype)](run, stream);
  return DeviceStatus(name(), device_, error);
}

}  // namespace

std::shared_ptr<const DeviceCodec> NewDeviceSelection(HostCodec host, const DeviceApi& device) {
  auto form = SelectionFormOf(*host);
  if (!form || form->spec.selection != Selection::kTopK) return nullptr;
  auto values = NewDeviceCodec(form->values, device);
  if (values == nullptr) return nullptr;
  return std::make_shared<DeviceSelectionCodec>(std::move(host), device, *std::move(form),
                                                std::move(values));
}

}  // namespace longhaul
