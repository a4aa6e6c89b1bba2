#include "experiments/run/wire_bytes.h"

#include <cmath>
#include <memory>
#include <vector>

#include "compressors/catalog.h"
#include "compressors/reference_tensors.h"
#include "plugin/core/packet.h"
#include "pp_group/gpt_layout.h"

namespace longhaul {
namespace {

// Bytes of one message of this codec and shape, our packet header included: of a Gaussian tensor.
// Most codecs have frames of one size; entropy-coded indices depend a little on the values. Where
// the receiver adds differences, of the second message: the first of a channel is longer.
std::optional<double> MessageBytes(const std::string& codec, Shape shape) {
  if (codec == "none") {
    return static_cast<double>(kPacketHeaderBytes + shape.elements() * sizeof(float));
  }
  absl::StatusOr<std::shared_ptr<const Codec>> made = MakeCodec(codec);
  if (!made.ok()) return std::nullopt;
  const std::vector<float> x = DrawReference(Distribution::kGaussian, shape.elements(), /*seed=*/1);
  std::vector<std::byte> frame((*made)->MaxFrameBytes(shape, DType::kF32));
  const std::unique_ptr<CodecState> state = (*made)->NewState(shape);
  absl::StatusOr<size_t> bytes = size_t{0};
  for (int messages = DecodingNeedsState(**made) ? 2 : 1; messages > 0; --messages) {
    bytes = (*made)->Encode({x.data(), DType::kF32, shape}, /*seed=*/1, state.get(), frame);
    if (!bytes.ok()) return std::nullopt;
  }
  return static_cast<double>(kPacketHeaderBytes + *bytes);
}

uint64_t StageElements(const RunSpec& spec, int64_t stage) {
  const GptSpec model{spec.model.blocks, spec.model.width, spec.model.heads, spec.model.context,
                      spec.model.vocab};
  return LayoutOf(model, static_cast<int>(stage), static_cast<int>(spec.schedule.stages))
      .flat_elements;
}

// What the sender of this crossing hands to the transport over the whole training.
std::optional<double> PredictedBytes(const RunSpec& spec, const CrossingRow& c) {
  const int64_t steps = Steps(spec);
  if (c.direction == Direction::kOuter) {
    const std::optional<double> frame =
        MessageBytes(spec.outer.codec, {1, StageElements(spec, c.src_rank % spec.schedule.stages)});
    if (!frame) return std::nullopt;
    // After every H steps, and after the last.
    const int64_t syncs = (steps + spec.outer.inner_steps - 1) / spec.outer.inner_steps;
    return *frame * static_cast<double>(syncs);
  }
  const Shape shape{
      static_cast<uint64_t>(spec.train.batch_rows / spec.train.microbatches * spec.model.context),
      static_cast<uint64_t>(spec.model.width)};
  const std::optional<double> frame = MessageBytes(
      c.direction == Direction::kForward ? spec.boundary.forward : spec.boundary.backward, shape);
  if (!frame) return std::nullopt;
  return *frame * static_cast<double>(steps * spec.train.microbatches);
}

}  // namespace

void FillWireBytes(const RunSpec& spec,
                   const std::map<std::pair<int64_t, int64_t>, int64_t>& path_bytes,
                   std::vector<CrossingRow>& crossings) {
  std::map<std::pair<int64_t, int64_t>, double> payload;
  for (const CrossingRow& c : crossings) {
    if (const auto bytes = PredictedBytes(spec, c)) payload[{c.src_rank, c.dst_rank}] = *bytes;
  }
  for (CrossingRow& c : crossings) {
    if (c.direction == Direction::kOuter) {
      // On the wire a round is two byte tensors, the frame's size and the frame; the tensor that
      // crosses is the stage's outer delta.
      c.tensors /= 2;
      c.elements =
          c.tensors * static_cast<int64_t>(StageElements(spec, c.src_rank % spec.schedule.stages));
    }
    const auto own = payload.find({c.src_rank, c.dst_rank});
    if (own != payload.end()) {
      const auto opposite = payload.find({c.dst_rank, c.src_rank});
      const double acknowledged = opposite == payload.end() ? 0 : opposite->second / 1448 / 2;
      c.predicted_wire_bytes =
          std::llround(own->second * kWirePerPayload + acknowledged * kAckBytes);
    }
    const auto counted = path_bytes.find({c.src_rank, c.dst_rank});
    if (counted != path_bytes.end()) c.kernel_tx_bytes = counted->second;
  }
}

}  // namespace longhaul
