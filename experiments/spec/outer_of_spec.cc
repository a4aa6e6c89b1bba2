#include "experiments/spec/outer_of_spec.h"

#include <cmath>

#include <fmt/format.h>

#include "experiments/spec/spec_keys.h"
#include "experiments/spec/table_reader.h"
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

void TakeOuterDefaults(TableReader& r, RunSpec& spec) {
  const OuterRule* rule = FindOuterRule(spec.outer.algorithm);
  if (rule != nullptr && !r.Has("lr")) spec.outer.lr = rule->lr;
  if (rule != nullptr && !r.Has("momentum")) spec.outer.momentum = rule->momentum;
  if (rule != nullptr && !r.Has("codec")) spec.outer.codec = rule->codec;
  const bool meets = ExchangesGradients(spec.outer.algorithm) || spec.outer.inner_steps > 0;
  if (spec.outer.codec.empty() && !meets) spec.outer.codec = "none";
}

void CheckOuterTable(TableReader& r, const RunSpec& spec) {
  const RunSpec::Outer& outer = spec.outer;
  const absl::Status figures =
      CheckOuterFigures(ToOuterSpec(spec), spec.model.blocks, outer.groups);
  r.Check(figures.ok(), "algorithm",
          fmt::format("= \"{}\": {}", outer.algorithm, std::string(figures.message())));
  const bool data_parallel = ExchangesGradients(outer.algorithm);
  r.Check(!data_parallel || outer.inner_steps == 0, "inner_steps",
          fmt::format("must be 0 with outer.algorithm = \"{}\": its groups meet in every step",
                      outer.algorithm));
  r.Check(data_parallel || outer.groups == 1 || outer.inner_steps >= 1, "inner_steps",
          fmt::format("must be at least 1 with outer.groups = {}", outer.groups));
  r.Check((!data_parallel && outer.inner_steps == 0) || !outer.codec.empty(), "codec",
          fmt::format("is missing (a choice: 'none' sends the {} lossless)",
                      data_parallel ? "gradients" : "outer delta"));
  r.Check(outer.on_group_loss == "end" || (!data_parallel && outer.inner_steps >= 1),
          "on_group_loss",
          "= \"continue\" needs outer steps, at which groups come and go: outer.inner_steps >= 1");
  r.Check(outer.on_group_loss == "end" || WholeRounds(ToOuterSpec(spec)), "on_group_loss",
          "= \"continue\": groups come and go when all are equal; want an algorithm in which "
          "all meet, outer.fragments = 1, outer.overlap_steps = 0 and outer.mix = 0");
  r.Check(outer.joiner_source == "member" || outer.on_group_loss == "continue", "joiner_source",
          "= \"swarm\" is for groups that join: it needs outer.on_group_loss = \"continue\"");
  r.Check(outer.joiner_source == "swarm" || std::isinf(outer.joiner_up_mbit), "joiner_up_mbit",
          "is a swarm's; want outer.joiner_source = \"swarm\"");
  r.Check(outer.min_groups <= outer.groups, "min_groups",
          fmt::format("= {} with outer.groups = {}", outer.min_groups, outer.groups));
  r.Check(
      outer.on_group_loss == "end" || spec.schedule.chunks == 1, "on_group_loss",
      "= \"continue\": groups that come and go have one stage a rank; want schedule.chunks = 1");
  r.Check(spec.workers() <= kMaxRanks, "groups",
          fmt::format("= {} with schedule.stages = {}; want a product of at most {} ranks",
                      outer.groups, spec.schedule.stages, kMaxRanks));
}

}  // namespace longhaul
