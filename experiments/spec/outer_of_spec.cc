#include "experiments/spec/outer_of_spec.h"

#include "pp_group/outer/outer_rules.h"

namespace longhaul {

OuterSpec ToOuterSpec(const RunSpec& spec) {
  const RunSpec::Outer& outer = spec.outer;
  const OuterRule* rule = FindOuterRule(outer.algorithm);
  if (rule == nullptr) return {.inner_steps = outer.inner_steps, .algorithm = outer.algorithm};
  const int64_t fragments = outer.fragments.value_or(1);
  return {
      .inner_steps = outer.inner_steps,
      .lr = outer.lr,
      .momentum = outer.momentum,
      .codec = outer.codec,
      .algorithm = outer.algorithm,
      .fragments = fragments,
      .overlap = outer.overlap_steps.value_or(rule->late_round ? outer.inner_steps / fragments : 0),
      .mix = outer.mix.value_or(rule->mix),
      .mean = outer.mean.empty() ? "all" : outer.mean,
      .cluster = outer.cluster_groups.value_or(0),
      .global_every = outer.global_every.value_or(0),
      .global_codec = outer.global_codec,
      .warmup = outer.warmup_steps.value_or(0),
      .lr_schedule = outer.lr_schedule.empty() ? "constant" : outer.lr_schedule,
      .lr_warmup_rounds = outer.lr_warmup_rounds.value_or(0)};
}

OuterPlan OuterPlanOf(const RunSpec& spec) {
  return OuterPlan(ToOuterSpec(spec), Steps(spec), spec.outer.groups,
                   static_cast<uint64_t>(spec.seed));
}

std::string InnerOptimizerOf(const RunSpec& spec) {
  if (!spec.train.optimizer.empty()) return spec.train.optimizer;
  const OuterRule* rule = FindOuterRule(spec.outer.algorithm);
  return rule == nullptr ? "adamw" : std::string(rule->inner);
}

}  // namespace longhaul
