#include "experiments/run/wire_bytes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "absl/strings/str_join.h"
#include "compressors/catalog.h"
#include "compressors/reference_tensors.h"
#include "experiments/train/model_of_spec.h"
#include "plugin/core/packet.h"

namespace longhaul {
namespace {

// Bytes of one message of this codec and shape, our packet header included: of a Gaussian tensor.
// Most codecs have frames of one size; entropy-coded indices depend a little on the values. Where
// the receiver adds differences, of the second message: the first of a channel is longer.
std::optional<double> MessageBytes(const std::string& codec, Shape shape, DType dtype) {
  const bool half = dtype == DType::kBF16;
  if (codec == "none") {
    const size_t each = half ? sizeof(uint16_t) : sizeof(float);
    return static_cast<double>(kPacketHeaderBytes + shape.elements() * each);
  }
  absl::StatusOr<std::shared_ptr<const Codec>> made = MakeCodec(codec);
  if (!made.ok()) return std::nullopt;
  const std::vector<float> x = DrawReference(Distribution::kGaussian, shape.elements(), /*seed=*/1);
  std::vector<uint16_t> upper;  // the same in bfloat16, cut off
  for (const float value : x) {
    if (half) upper.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
  }
  std::vector<std::byte> frame((*made)->MaxFrameBytes(shape, dtype));
  const std::unique_ptr<CodecState> state = (*made)->NewState(shape);
  absl::StatusOr<size_t> bytes = size_t{0};
  for (int messages = DecodingNeedsState(**made) ? 2 : 1; messages > 0; --messages) {
    bytes =
        (*made)->Encode({half ? static_cast<const void*>(upper.data()) : x.data(), dtype, shape},
                        /*seed=*/1, state.get(), frame);
    if (!bytes.ok()) return std::nullopt;
  }
  return static_cast<double>(kPacketHeaderBytes + *bytes);
}

uint64_t StageElements(const RunSpec& spec, int64_t stage) {
  return LayoutOf(ToModelSpec(spec), static_cast<int>(stage),
                  static_cast<int>(spec.schedule.stages), spec.schedule.cuts)
      .flat_elements;
}

// Our headers and the transport's are in a message's bytes on TCP.
double OnTcp(double message_bytes, double messages) {
  if (messages == 0) return 0;
  const double pieces = std::ceil(message_bytes / messages / kTransportPiece) - 1;
  return message_bytes + messages * (kTransportPacketBytes + pieces * kTransportPieceBytes);
}

// What the sender of this crossing hands to TCP over the whole training.
std::optional<double> PredictedBytes(const RunSpec& spec, const CrossingRow& c) {
  const int64_t steps = Steps(spec);
  if (c.direction == Direction::kOuter) {
    const std::optional<double> frame = MessageBytes(
        spec.outer.codec, {1, StageElements(spec, c.src_rank % spec.schedule.stages)}, DType::kF32);
    if (!frame) return std::nullopt;
    // After every H steps, and after the last; data parallel groups meet in every step.
    const int64_t apart = std::max<int64_t>(1, spec.outer.inner_steps);
    const int64_t syncs = (steps + apart - 1) / apart;
    // The frame's size goes ahead of it.
    return OnTcp((*frame + kPacketHeaderBytes + sizeof(uint64_t)) * static_cast<double>(syncs),
                 2.0 * static_cast<double>(syncs));
  }
  const Shape shape{
      static_cast<uint64_t>(spec.train.batch_rows / spec.train.microbatches * spec.model.context),
      static_cast<uint64_t>(spec.model.width)};
  const RunSpec::Boundary::Cut codecs =
      CodecsOf(spec, std::min(c.src_rank, c.dst_rank) % spec.schedule.stages);
  const std::optional<double> frame =
      MessageBytes(c.direction == Direction::kForward ? codecs.forward : codecs.backward, shape,
                   spec.train.dtype == "bfloat16" ? DType::kBF16 : DType::kF32);
  if (!frame) return std::nullopt;
  const auto messages = static_cast<double>(steps * spec.train.microbatches);
  return OnTcp(*frame * messages, messages);
}

// A path's share of what its receiver's interface counted.
std::optional<int64_t> ReceivedBytes(const WireCounts& counts, const CrossingRow& c) {
  const auto node = counts.nodes.find(c.dst_rank);
  const auto path = counts.paths.find({c.src_rank, c.dst_rank});
  if (node == counts.nodes.end() || path == counts.paths.end() || node->second.delivered == 0) {
    return std::nullopt;
  }
  return std::llround(static_cast<double>(path->second.bytes) *
                      static_cast<double>(node->second.received) /
                      static_cast<double>(node->second.delivered));
}

double Heartbeats(const RunSpec& spec, const WireCounts::Path& path) {
  constexpr double kBeatsPerDeadline = 5;
  return path.seconds * kBeatsPerDeadline / spec.net.peer_deadline_s *
         static_cast<double>(kPacketHeaderBytes + kTransportPacketBytes);
}

// Bytes on a path that are neither messages nor the transport's headers for them.
double Overhead(const RunSpec& spec, const WireCounts::Path& path) {
  return Heartbeats(spec, path) + static_cast<double>(path.packets * kFrameHeaderBytes);
}

// "" when `counted` is in the bounds of `accounted`.
std::string Complaint(const std::string& where, double counted, double accounted, int64_t drops) {
  const double bound =
      kWireTolerance * accounted +
      static_cast<double>(kWireAllowanceBytes + drops * (kSegmentBytes + kFrameHeaderBytes));
  if (std::abs(counted - accounted) <= bound) return "";
  return fmt::format(
      "{}: {:.0f} bytes counted, {:.0f} accounted for, {:+.2f} %, bound {:g} % and {} B", where,
      counted, accounted, 100 * (counted / std::max(1.0, accounted) - 1), 100 * kWireTolerance,
      kWireAllowanceBytes);
}

// Of a path whose crossing has been sent: what TCP was given and a header for every frame.
std::string PathComplaint(const RunSpec& spec, const WireCounts& counts, const CrossingRow& c) {
  const auto at = counts.paths.find({c.src_rank, c.dst_rank});
  if (at == counts.paths.end() || c.tensors == 0) return "";
  const WireCounts::Path& path = at->second;
  const auto back = counts.paths.find({c.dst_rank, c.src_rank});
  const int64_t drops = path.drops + (back == counts.paths.end() ? 0 : back->second.drops);
  const double accounted =
      OnTcp(static_cast<double>(c.message_bytes), static_cast<double>(c.tensors)) +
      Overhead(spec, path);
  return Complaint(fmt::format("path {} > {}", c.src_rank, c.dst_rank),
                   static_cast<double>(path.bytes), accounted, drops);
}

}  // namespace

void WireCounts::See(const nlohmann::json& event) {
  const std::string kind = event.value("event", "");
  if (kind == "path") {
    paths[{event.value("from", int64_t{0}), event.value("to", int64_t{0})}] = {
        .bytes = event.value("bytes", int64_t{0}),
        .packets = event.value("packets", int64_t{0}),
        .drops = event.value("drops_queue", int64_t{0}) + event.value("drops_loss", int64_t{0}),
        .seconds = event.value("seconds", 0.0)};
  }
  if (kind == "node") {
    nodes[event.value("node", int64_t{0})] = {.received = event.value("received", int64_t{0}),
                                              .delivered = event.value("delivered", int64_t{0})};
  }
}

absl::Status FillWireBytes(const RunSpec& spec, const WireCounts& counts,
                           std::vector<CrossingRow>& crossings) {
  std::map<std::pair<int64_t, int64_t>, double> predicted, sent;  // on TCP
  std::vector<std::string> complaints;
  const auto complain = [&](std::string text) {
    if (!text.empty()) complaints.push_back(std::move(text));
  };
  for (const CrossingRow& c : crossings) {
    if (const auto bytes = PredictedBytes(spec, c)) predicted[{c.src_rank, c.dst_rank}] = *bytes;
    sent[{c.src_rank, c.dst_rank}] =
        OnTcp(static_cast<double>(c.message_bytes), static_cast<double>(c.tensors));
    complain(PathComplaint(spec, counts, c));
  }
  for (const auto& [node, n] : counts.nodes) {
    complain(Complaint(fmt::format("interface of node {}", node), static_cast<double>(n.received),
                       static_cast<double>(n.delivered), 0));
  }
  for (CrossingRow& c : crossings) {
    if (c.direction == Direction::kOuter) {
      // On the wire a round is two byte tensors, the frame's size and the frame; the tensor that
      // crosses is the stage's outer delta.
      c.tensors /= 2;
      c.elements =
          c.tensors * static_cast<int64_t>(StageElements(spec, c.src_rank % spec.schedule.stages));
    }
    const auto path = counts.paths.find({c.src_rank, c.dst_rank});
    const bool counted = path != counts.paths.end();
    if (counted) c.kernel_tx_bytes = path->second.bytes;
    c.kernel_rx_bytes = ReceivedBytes(counts, c);
    const auto own = predicted.find({c.src_rank, c.dst_rank});
    if (own == predicted.end()) continue;
    const auto opposite = predicted.find({c.dst_rank, c.src_rank});
    const double acknowledged = opposite == predicted.end() ? 0 : opposite->second / 2;
    const double full = (own->second + acknowledged) / kSegmentBytes * kFrameHeaderBytes;
    const double given = sent.at({c.src_rank, c.dst_rank});
    c.predicted_wire_bytes = std::llround(
        own->second +
        (counted && given > 0 ? own->second / given * Overhead(spec, path->second) : full));
  }
  if (complaints.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError("bytes on the links: " + absl::StrJoin(complaints, "; "));
}

}  // namespace longhaul
