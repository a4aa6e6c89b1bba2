#include "experiments/train/boundary_codecs.h"

#include <stdexcept>
#include <utility>

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "compressors/numbers/noise.h"

namespace longhaul {

absl::StatusOr<std::shared_ptr<BoundaryCodecs>> BoundaryCodecs::Of(const RunSpec& spec) {
  const bool warms_up = spec.boundary.warmup_steps.value_or(0) > 0;
  if (!warms_up && !spec.boundary.policy) return std::shared_ptr<BoundaryCodecs>();
  std::shared_ptr<BoundaryCodecs> codecs(new BoundaryCodecs(spec));
  if (spec.boundary.policy) {
    ASSIGN_OR_RETURN(CodecChoice choice, CodecChoice::Of(spec));
    codecs->choice_ = std::move(choice);
  }
  return codecs;
}

void BoundaryCodecs::Before(const LocalTelemetry& rank, const BoundaryTensor& x) {
  const Direction direction = x.gradient ? Direction::kBackward : Direction::kForward;
  const int64_t warmup = spec_.boundary.warmup_steps.value_or(0);
  const bool chooses = choice_ && choice_->chooses(direction);
  if (x.microbatch != 0 || (warmup == 0 && !chooses)) return;
  const int peer = x.gradient ? x.boundary : x.boundary + 1;  // a rank is a stage
  const TensorKind kind = x.gradient ? TensorKind::kGradient : TensorKind::kActivation;
  Group& group = rank.boundary->group();
  const auto [at, fresh] = in_use_.try_emplace({rank.group, x.boundary, x.gradient}, "none");
  std::string& in_use = at->second;
  if (fresh && step_ > 1) {  // resumed: the group's state has it
    float any = 0;
    const std::string_view codec =
        group.CodecFor({.values = &any, .type = ElementType::kF32, .dims = {1}}, peer, /*tag=*/0);
    in_use = codec.empty() ? "none" : codec;
  }
  CodecChoice::Chosen chosen;
  if (step_ <= warmup) {
    chosen = {"none", "warm-up"};
  } else if (chooses) {
    const at::Tensor values = x.values.to(at::kCPU, at::kFloat).contiguous();
    const int64_t first = rank.group * rank.boundary->getSize();
    chosen =
        choice_->Choose(direction, rank.rank, first + peer,
                        {values.const_data_ptr<float>(),
                         DType::kF32,
                         {static_cast<uint64_t>(values.size(0)),
                          static_cast<uint64_t>(values.numel() / values.size(0))}},
                        FoldSeed({static_cast<uint64_t>(spec_.seed), static_cast<uint64_t>(step_),
                                  static_cast<uint64_t>(x.boundary), x.gradient}));
  } else {
    const RunSpec::Boundary::Cut own = CodecsOf(spec_, x.boundary);
    chosen = {x.gradient ? own.backward : own.forward,
              absl::StrCat("behind the warm-up of ", warmup, " steps")};
  }
  if (chosen.codec == in_use && !fresh) return;
  const absl::Status used = group.UseCodec(peer, kind, chosen.codec);
  if (!used.ok()) throw std::runtime_error(std::string(used.message()));
  if (chosen.codec == in_use) return;
  switches_.push_back({.step = step_,
                       .group_index = rank.group,
                       .boundary = x.boundary,
                       .direction = direction,
                       .from_codec = std::exchange(in_use, chosen.codec),
                       .to_codec = chosen.codec,
                       .cause = std::move(chosen.cause)});
}

std::vector<CodecSwitchRow> BoundaryCodecs::Take() { return std::exchange(switches_, {}); }

}  // namespace longhaul
