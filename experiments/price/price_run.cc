#include "experiments/price/price_run.h"

#include <torch/version.h>

#include <ATen/Parallel.h>
#include <ATen/Version.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "compressors/isa.h"
#include "compressors/numbers/noise.h"
#include "experiments/price/price_model.h"
#include "pp_group/memory/tensor_memory.h"

namespace longhaul {
namespace {

GradientArm GradientArmOf(const PriceRequest& request, const GradientPlan& plan) {
  const PriceArm arm = ArmOf(request.cuts[plan.cuts], plan.codec);
  return {.forward = plan.side == GradientSide::kBackward ? PriceArm() : arm,
          .backward = plan.side == GradientSide::kForward ? PriceArm() : arm};
}

// "aten on cuda, bfloat16"; what is usual is not said.
std::string EngineWords(const std::string& engine, const RunSpec& spec) {
  return absl::StrCat(engine, spec.train.device == "cpu" ? "" : " on " + spec.train.device,
                      spec.train.dtype == "float32" ? "" : ", " + spec.train.dtype);
}

// Rows of a text through a model, and how far that is.
class Pricing {
 public:
  Pricing(const PriceInput& input, PriceModel& model, PriceCodecs& codecs,
          const std::function<void(const PriceProgress&)>& progress)
      : input_(input), request_(input.request), model_(model), codecs_(codecs), tell_(progress) {}

  absl::Status Run(const ChooseArms& choose, PriceOutcome& out);

 private:
  double InBlocks(const PassWork& work) const {
    return static_cast<double>(work.blocks) +
           static_cast<double>(work.heads) * model_.head_in_blocks();
  }
  void Worked(const PassWork& work) {
    done_ += InBlocks(work);
    if (tell_) tell_({.doing = doing_, .done = done_, .all = all_});
  }
  std::vector<int64_t> Row(int64_t index) const {
    std::vector<int64_t> ids(static_cast<size_t>(request_.context) + 1);
    input_.text->HeldOutRow(index, request_.context, ids);
    return ids;
  }
  uint64_t SeedOf(int64_t row) const {
    return FoldSeed({request_.seed, static_cast<uint64_t>(row)});
  }
  double PlannedWork(const PriceArms& arms, size_t gradients) const;
  absl::Status PriceRows(PriceSeen& seen);
  absl::Status Gradients(PriceSeen& seen);
  absl::Status Verify(const std::vector<PriceArm>& choices, PriceOutcome& out);

  const PriceInput& input_;
  const PriceRequest& request_;
  PriceModel& model_;
  PriceCodecs& codecs_;
  const std::function<void(const PriceProgress&)>& tell_;
  std::string doing_;
  double done_ = 0, all_ = 0;
};

double Pricing::PlannedWork(const PriceArms& arms, size_t gradients) const {
  const auto rows = static_cast<double>(request_.rows);
  double work = rows * InBlocks(WorkOf(PassTree(arms.all()), request_.blocks));
  if (request_.gradient_rows > 0) {
    work += static_cast<double>(request_.gradient_rows) * 3 * static_cast<double>(gradients + 1) *
            InBlocks({.blocks = request_.blocks, .heads = 1});
  }
  if (request_.budget_nat) {
    work += rows * static_cast<double>(request_.cuts.size() + 1) *
            InBlocks({.blocks = request_.blocks, .heads = 1});
  }
  return work;
}

absl::Status Pricing::PriceRows(PriceSeen& seen) {
  const PassNode tree = PassTree(seen.arms.all());
  seen.losses.assign(seen.arms.all().size(), {});
  const PriceWatch watch{
      .crossed =
          [&](const PricedCrossing& crossing, bool, bool exact, const BoundaryCount& count) {
            if (exact) seen.forward[crossing] += count;
          },
      .worked = [this](const PassWork& work) { Worked(work); }};
  RowValues losses(seen.losses.size());
  for (int64_t row = 0; row < request_.rows; ++row) {
    doing_ = absl::StrCat("row ", row + 1, " of ", request_.rows);
    RETURN_IF_ERROR(model_.PriceRow(Row(row), tree, SeedOf(row), &codecs_, watch, losses));
    seen.windows.push_back(input_.text->HeldOutWindow(row, request_.context));
    for (size_t a = 0; a < losses.size(); ++a) seen.losses[a].push_back(losses[a]);
  }
  return absl::OkStatus();
}

absl::Status Pricing::Gradients(PriceSeen& seen) {
  std::vector<GradientArm> arms;
  for (const GradientPlan& plan : GradientsOf(request_))
    arms.push_back(GradientArmOf(request_, plan));
  seen.gradient_nmse.assign(arms.size(), {});
  seen.gradient_cosine.assign(arms.size(), {});
  const PriceWatch watch{.crossed =
                             [&](const PricedCrossing& crossing, bool backward, bool exact,
                                 const BoundaryCount& count) {
                               if (backward && exact) seen.backward[crossing] += count;
                             },
                         .worked = [this](const PassWork& work) { Worked(work); }};
  std::vector<GradientError> errors(arms.size());
  for (int64_t row = 0; row < request_.gradient_rows; ++row) {
    doing_ = absl::StrCat("gradients of row ", row + 1, " of ", request_.gradient_rows);
    RETURN_IF_ERROR(model_.GradientRow(Row(row), arms, SeedOf(row), &codecs_, watch, errors));
    for (size_t a = 0; a < arms.size(); ++a) {
      seen.gradient_nmse[a].push_back(errors[a].nmse);
      seen.gradient_cosine[a].push_back(errors[a].cosine);
    }
  }
  return absl::OkStatus();
}

// The choices on as many rows again, none of which was priced on.
absl::Status Pricing::Verify(const std::vector<PriceArm>& choices, PriceOutcome& out) {
  PriceArms arms;
  arms.Add({});
  for (const PriceArm& choice : choices) arms.Add(choice);
  if (arms.all().size() == 1) return absl::OkStatus();
  const PassNode tree = PassTree(arms.all());
  const PriceWatch watch{.crossed = {}, .worked = [this](const PassWork& work) { Worked(work); }};
  PriceVerification& verified = out.verification.emplace();
  RowValues losses(arms.all().size());
  std::vector<RowValues> by_arm(arms.all().size());
  for (int64_t row = request_.rows; row < 2 * request_.rows; ++row) {
    doing_ = absl::StrCat("verifying, row ", row + 1 - request_.rows, " of ", request_.rows);
    RETURN_IF_ERROR(model_.PriceRow(Row(row), tree, SeedOf(row), &codecs_, watch, losses));
    verified.windows.push_back(input_.text->HeldOutWindow(row, request_.context));
    for (size_t a = 0; a < losses.size(); ++a) by_arm[a].push_back(losses[a]);
  }
  verified.exact = by_arm[0];
  for (const PriceArm& choice : choices) {
    verified.chosen.push_back(choice.empty() ? RowValues() : by_arm[*arms.Find(choice)]);
  }
  return absl::OkStatus();
}

absl::Status Pricing::Run(const ChooseArms& choose, PriceOutcome& out) {
  out.seen.arms = ArmsOf(request_);
  all_ = PlannedWork(out.seen.arms, GradientsOf(request_).size());
  RETURN_IF_ERROR(PriceRows(out.seen));
  if (request_.gradient_rows > 0) {
    RETURN_IF_ERROR(Gradients(out.seen));
  }
  if (!request_.budget_nat) return absl::OkStatus();
  const absl::StatusOr<std::vector<PriceArm>> choices = choose(out);
  return choices.ok() ? Verify(*choices, out) : choices.status();
}

}  // namespace

absl::StatusOr<PriceOutcome> RunPrice(const PriceInput& input, int64_t threads,
                                      const std::function<void(const PriceProgress&)>& progress,
                                      const ChooseArms& choose) {
  UseTensorMemory();
  at::set_num_threads(static_cast<int>(threads));
  absl::StatusOr<PriceCodecs> codecs = PriceCodecs::Make(input.request.codecs);
  if (!codecs.ok()) return codecs.status();
  ASSIGN_OR_RETURN(std::unique_ptr<PriceModel> model, PriceModel::Load(input.spec, *input.weights));
  PriceOutcome out{.seen = {},
                   .verification = std::nullopt,
                   .engine = EngineWords(model->engine(), input.spec),
                   .torch = TORCH_VERSION,
                   .torch_cpu_path = at::get_cpu_capability(),
                   .codec_cpu_path = std::string(IsaName(BestIsa())),
                   .threads = at::get_num_threads(),
                   .head_in_blocks = model->head_in_blocks()};
  Pricing pricing(input, *model, *codecs, progress);
  RETURN_IF_ERROR(pricing.Run(choose, out));
  return out;
}

}  // namespace longhaul
