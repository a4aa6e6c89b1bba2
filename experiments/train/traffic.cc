#include "experiments/train/traffic.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "base/status_macros.h"
#include "compressors/catalog.h"
#include "compressors/frame/frame.h"
#include "compressors/reference_tensors.h"
#include "experiments/spec/boundary_policy.h"
#include "experiments/spec/plans_of_spec.h"
#include "experiments/train/codec_choice.h"
#include "experiments/train/sample_visits.h"
#include "plugin/core/packet.h"
#include "pp_group/outer/fragments.h"
#include "pp_group/schedule/pipeline_program.h"

namespace longhaul {
namespace {

constexpr uint64_t kMostEncoded = uint64_t{1} << 22;
constexpr uint64_t kFirstEncoded = uint64_t{1} << 16;

// Tensors of the steps behind `done` in one group, by who sends which kind to whom in which codec.
// `visits`: of the group.
absl::StatusOr<std::vector<PlannedCrossing>> PipelineCrossings(
    const RunSpec& spec, const PipelineProgram& program, int64_t group, int64_t done,
    const SampleVisits& visits, std::span<const CodecSwitchRow> switches) {
  const Shape shape = BoundaryShape(spec);
  // Kind, from, to, codec, turns: two ranks may have several boundaries between them.
  std::map<std::tuple<MessageKind, int, int, std::string, int64_t>, PlannedCrossing> found;
  for (const RankCommunication& rank : Communication(program)) {
    for (const RankMessage& t : rank.sends) {
      const bool activation = t.message.kind == MessageKind::kActivation;
      const Direction direction = activation ? Direction::kForward : Direction::kBackward;
      const std::vector<CodecFrom> codecs =
          CodecsOver(spec, switches, group, t.message.boundary(), direction);
      for (size_t i = 0; i < codecs.size(); ++i) {
        const int64_t until = i + 1 < codecs.size() ? codecs[i + 1].step - 1 : Steps(spec);
        const int64_t turns = until - std::max(done, codecs[i].step - 1);
        if (turns <= 0) continue;
        const std::string& codec = codecs[i].codec;
        auto [at, added] =
            found.try_emplace({t.message.kind, t.from_rank, t.to_rank, codec, turns});
        PlannedCrossing& c = at->second;
        if (added) {
          c = {.src_rank = group * spec.ranks() + t.from_rank,
               .dst_rank = group * spec.ranks() + t.to_rank,
               .direction = direction,
               .codec = codec,
               .shape = shape,
               .dtype = spec.train.dtype == "bfloat16" ? DType::kBF16 : DType::kF32,
               .messages_per_turn = 0,
               .turns = turns};
        }
        ++c.messages_per_turn;
        if (activation && RemembersSamples(codec)) {  // a micro-batch is a sample
          c.first_visits = visits.first * c.messages_per_turn / spec.train.microbatches;
        }
      }
    }
  }
  std::vector<PlannedCrossing> out;
  for (const auto& [key, crossing] : found) out.push_back(crossing);
  return out;
}

// What a stage's peers exchange, of each fragment that it has a part of; between ranks 0 and 0.
std::vector<PlannedCrossing> OuterCrossings(const RunSpec& spec, const StageLayout& layout) {
  const OuterPlan plan = OuterPlanOf(spec);
  const bool levels = spec.outer.cluster_groups.has_value();
  std::vector<PlannedCrossing> out;
  for (int64_t f = 0; f < plan.fragments(); ++f) {
    PlannedCrossing c = {.src_rank = 0,
                         .dst_rank = 0,
                         .direction = Direction::kOuter,
                         .codec = levels && f == 1 && !spec.outer.global_codec.empty()
                                      ? spec.outer.global_codec
                                      : spec.outer.codec,
                         .shape = {1, 0},
                         .dtype = DType::kF32,
                         .messages_per_turn = 1,
                         .turns = 0,
                         .fragment = f};
    const bool one = levels || plan.fragments() == 1;
    const std::vector<FramePart> parts =
        one ? FrameParts(layout)
            : FragmentsOf(layout, plan.fragments())[static_cast<size_t>(f)].parts;
    for (const FramePart& part : parts) {
      c.parts.push_back(static_cast<uint64_t>(part.elements()));
      c.shape.cols += c.parts.back();
    }
    if (!c.parts.empty()) out.push_back(std::move(c));
  }
  return out;
}

std::optional<size_t> FrameBytes(const Codec& codec, Shape shape, DType dtype) {
  const bool half = dtype == DType::kBF16;
  const std::vector<float> x = DrawReference(Distribution::kGaussian, shape.elements(), /*seed=*/1);
  std::vector<uint16_t> upper;  // the same in bfloat16, cut off
  for (const float value : x) {
    if (half) upper.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
  }
  const void* values = half ? static_cast<const void*>(upper.data()) : x.data();
  std::vector<std::byte> frame(codec.MaxFrameBytes(shape, dtype));
  const std::unique_ptr<CodecState> state = codec.NewState(shape);
  absl::StatusOr<size_t> bytes = size_t{0};
  for (int messages = DecodingNeedsState(codec) ? 2 : 1; messages > 0; --messages) {
    bytes = codec.Encode({values, dtype, shape}, /*seed=*/1, state.get(), frame);
    if (!bytes.ok()) return std::nullopt;
  }
  return *bytes;
}

// Gradients cross in every step, in the codec of that step.
void AddByCodec(const RunSpec& spec, int64_t done, PlannedCrossing crossing,
                std::vector<PlannedCrossing>& out) {
  int64_t before = done;
  for (const CodecUntil& codec : CodecsOf(spec.outer)) {
    const int64_t until = std::min(codec.step, Steps(spec));
    if (until <= before) continue;
    crossing.codec = codec.codec;
    crossing.turns = until - std::exchange(before, until);
    out.push_back(crossing);
  }
}

// The tied matrix's gradient, between the ranks that hold it, where they are two.
void AddTied(const RunSpec& spec, int64_t done, std::vector<PlannedCrossing>& out) {
  const StageLayout ends = LayoutOf(spec, 0);
  const std::vector<int> rank_of_stage = RanksOfStages(spec);
  const int64_t ranks = spec.ranks(), groups = spec.outer.groups;
  const bool apart = rank_of_stage.front() != rank_of_stage.back();
  for (int64_t g = 0; ends.tied && apart && g < groups; ++g) {
    const int64_t first = g * ranks + rank_of_stage.front();
    const int64_t last = g * ranks + rank_of_stage.back();
    for (const auto& [from, to] : {std::pair(first, last), {last, first}}) {
      out.push_back({.src_rank = from,
                     .dst_rank = to,
                     .direction = Direction::kTied,
                     .codec = "none",
                     .shape = {1, static_cast<uint64_t>(ends.tied->end - ends.tied->begin)},
                     .dtype = DType::kF32,
                     .messages_per_turn = 1,
                     .turns = Steps(spec) - done});
    }
  }
}

}  // namespace

Shape BoundaryShape(const RunSpec& spec) {
  return {
      static_cast<uint64_t>(spec.train.batch_rows / spec.train.microbatches * spec.model.context),
      static_cast<uint64_t>(spec.boundary.subspace.value_or(spec.model.width))};
}

absl::StatusOr<std::vector<PlannedCrossing>> PlanCrossings(
    const RunSpec& spec, int64_t done, std::span<const CodecSwitchRow> switches) {
  ASSIGN_OR_RETURN(const PipelineProgram program, PipelineOf(spec));
  const int64_t ranks = spec.ranks(), groups = spec.outer.groups;
  const std::vector<int> rank_of_stage = RanksOfStages(spec);
  std::vector<SampleVisits> visits(static_cast<size_t>(groups));
  if (!SampleBoundaries(spec).empty()) visits = VisitsOf(spec, done);
  std::vector<PlannedCrossing> out;
  for (int64_t g = 0; g < groups; ++g) {
    ASSIGN_OR_RETURN(const auto own, PipelineCrossings(spec, program, g, done,
                                                       visits[static_cast<size_t>(g)], switches));
    out.insert(out.end(), own.begin(), own.end());
  }
  std::stable_sort(out.begin(), out.end(), [](const PlannedCrossing& a, const PlannedCrossing& b) {
    return a.direction < b.direction;
  });
  const OuterPlan outer = OuterPlanOf(spec);
  for (int64_t s = 0; outer.meets() && s < spec.stages(); ++s) {
    const int rank = rank_of_stage[static_cast<size_t>(s)];
    for (PlannedCrossing crossing : OuterCrossings(spec, LayoutOf(spec, s))) {
      for (int64_t from = 0; from < groups; ++from) {
        for (int64_t to = 0; to < groups; ++to) {
          if (from == to) continue;
          const int64_t turns = outer.Exchanges(crossing.fragment, done, static_cast<int>(from),
                                                static_cast<int>(to));
          if (turns == 0) continue;
          crossing.turns = turns;
          crossing.stage = s;
          crossing.src_rank = from * ranks + rank;
          crossing.dst_rank = to * ranks + rank;
          if (outer.gradients()) {
            AddByCodec(spec, done, crossing, out);
          } else {
            out.push_back(crossing);
          }
        }
      }
    }
  }
  AddTied(spec, done, out);
  return out;
}

StageLayout LayoutOf(const RunSpec& spec, int64_t stage) {
  return LayoutOf(OnExpertRank(spec.model, 0), static_cast<int>(stage),
                  static_cast<int>(spec.schedule.stages), spec.schedule.cuts);
}

int64_t LargestStage(const RunSpec& spec) {
  int64_t most = 0;
  for (int64_t s = 0; s < spec.stages(); ++s) {
    most = std::max(most, LayoutOf(spec, s).flat_elements);
  }
  return most;
}

std::optional<double> MessageBytes(const PlannedCrossing& crossing) {
  constexpr auto kHeader = static_cast<double>(kPacketHeaderBytes);
  if (crossing.direction != Direction::kOuter) {
    const auto bytes = MessageBytes(crossing.codec, crossing.shape, crossing.dtype);
    const auto first = MessageBytes("fp16", crossing.shape, crossing.dtype);
    if (!bytes || !first || crossing.first_visits == 0) return bytes;
    return *bytes + (*first - *bytes) * static_cast<double>(crossing.first_visits) /
                        static_cast<double>(crossing.messages());
  }
  // A frame even where there is no codec.
  const double plain = crossing.codec == "none" ? static_cast<double>(kFrameHeaderBytes) : 0;
  double frames = 0;
  for (const uint64_t elements : crossing.parts) {
    const auto bytes = MessageBytes(crossing.codec, {1, elements}, crossing.dtype);
    if (!bytes) return std::nullopt;
    frames = std::ceil(frames / kFrameAlignment) * kFrameAlignment + *bytes - kHeader + plain;
  }
  const auto lengths = static_cast<double>(crossing.parts.size() * sizeof(uint64_t));
  return kHeader + frames + kHeader + lengths;
}

std::optional<double> MessageBytes(const std::string& codec, Shape shape, DType dtype) {
  constexpr auto kHeader = static_cast<double>(kPacketHeaderBytes);
  if (codec == "none") {
    const size_t each = dtype == DType::kBF16 ? sizeof(uint16_t) : sizeof(float);
    return kHeader + static_cast<double>(shape.elements()) * static_cast<double>(each);
  }
  const absl::StatusOr<std::shared_ptr<const Codec>> made = MakeCodec(codec);
  if (!made.ok()) return std::nullopt;
  const auto bound = [&](Shape s) { return static_cast<double>((*made)->MaxFrameBytes(s, dtype)); };
  // A part that fills its upper bound has frames of fixed length: no more of the tensor is encoded.
  for (const uint64_t most : {kFirstEncoded, kMostEncoded}) {
    Shape part = shape;
    if (shape.elements() > most) {
      part.rows = std::clamp<uint64_t>(most / shape.cols, 1, shape.rows);
      part.cols = std::min(shape.cols, most);
    }
    const std::optional<size_t> bytes = FrameBytes(**made, part, dtype);
    if (!bytes) return std::nullopt;
    const bool whole = part.elements() == shape.elements();
    const bool fixed = static_cast<double>(*bytes) == bound(part);
    if (!whole && !fixed && most == kFirstEncoded) continue;
    return kHeader + static_cast<double>(*bytes) * (whole ? 1 : bound(shape) / bound(part));
  }
  return std::nullopt;  // not reached: the last part is taken
}

}  // namespace longhaul
