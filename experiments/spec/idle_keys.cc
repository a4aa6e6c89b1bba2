#include "experiments/spec/idle_keys.h"

#include <algorithm>

#include <fmt/format.h>

#include "experiments/spec/plans_of_spec.h"
#include "experiments/spec/spec_keys.h"
#include "pp_group/outer/outer_rules.h"

namespace longhaul {
namespace {

bool InnerIsOneOf(const RunSpec& spec, std::initializer_list<std::string_view> names) {
  const std::string optimizer = InnerOptimizerOf(spec);
  return std::find(names.begin(), names.end(), optimizer) != names.end();
}
bool WithoutMoments(const RunSpec& spec) { return InnerIsOneOf(spec, {"plain-sgd", "sign-sgd"}); }
bool WithoutSecondMoment(const RunSpec& spec) {
  return InnerIsOneOf(spec, {"sgd", "plain-sgd", "sign-sgd"});
}
// "dgc" clips what each group sends.
bool Unclipped(const RunSpec& spec) {
  const OuterRule* rule = FindOuterRule(spec.outer.algorithm);
  return WithoutMoments(spec) && rule != nullptr && rule->sends != OuterRule::Sends::kClipped;
}
bool TakesNoOuterStep(const RunSpec& spec) { return ExchangesGradients(spec.outer.algorithm); }
bool MeansOverAll(const RunSpec& spec) {
  const OuterRule* rule = FindOuterRule(spec.outer.algorithm);
  return spec.outer.mean == "senders" && rule != nullptr &&
         rule->crosses != OuterRule::Crosses::kDeltas;
}
bool WarmsUpNothing(const RunSpec& spec) {
  const OuterRule* rule = FindOuterRule(spec.outer.algorithm);
  return spec.outer.warmup_steps.value_or(0) > 0 && spec.outer.codec == "none" && rule != nullptr &&
         rule->sends != OuterRule::Sends::kMoment && !rule->density_falls;
}
bool EndsWithAGroup(const RunSpec& spec) { return spec.outer.on_group_loss == "end"; }

struct IdleKey {
  std::string_view key;
  bool (*idle)(const RunSpec&);
  std::string_view why;
};
constexpr IdleKey kIdleKeys[] = {
    {"train.beta1", WithoutMoments, "the inner optimizer has no moment"},
    {"train.beta2", WithoutSecondMoment, "the inner optimizer has no second moment"},
    {"train.eps", WithoutSecondMoment, "the inner optimizer has no second moment"},
    {"train.clip_norm", Unclipped, "the inner optimizer clips no gradient"},
    {"train.decay_share", [](const RunSpec& s) { return s.train.schedule != "wsd"; },
     "it is of train.schedule = \"wsd\""},
    {"schedule.depth", [](const RunSpec& s) { return s.schedule.kind != "1f1b-deep"; },
     "it is of schedule.kind = \"1f1b-deep\""},
    {"boundary.mask_gradients", [](const RunSpec& s) { return CodecText(s).forward == "none"; },
     "activations cross as they are: boundary.forward is \"none\""},
    {"outer.lr", TakesNoOuterStep, "outer.algorithm takes no outer step"},
    {"outer.momentum", TakesNoOuterStep, "outer.algorithm takes no outer step"},
    {"outer.mean", MeansOverAll, "outer.algorithm sends no outer deltas"},
    {"outer.warmup_steps", WarmsUpNothing, "gradients cross whole anyway: outer.codec is \"none\""},
    {"outer.round_deadline_s", EndsWithAGroup, "it is of outer.on_group_loss = \"continue\""},
    {"outer.min_groups", EndsWithAGroup, "it is of outer.on_group_loss = \"continue\""},
    {"checkpoint.keep", [](const RunSpec& s) { return s.checkpoint.every_steps == 0; },
     "checkpoint.every_steps is 0"},
};

// What a spec of this outer algorithm has where the file says nothing.
RunSpec DefaultsBeside(const RunSpec& spec) {
  RunSpec plain{};
  plain.outer.algorithm = spec.outer.algorithm;
  if (const OuterRule* rule = FindOuterRule(spec.outer.algorithm)) {
    plain.outer.lr = rule->lr;
    plain.outer.momentum = rule->momentum;
  }
  return plain;
}

}  // namespace

absl::Status CheckIdleKeys(const TomlValue& given, const RunSpec& spec) {
  const RunSpec plain = DefaultsBeside(spec);
  for (const IdleKey& idle : kIdleKeys) {
    const TomlValue* found = Find(given, std::string(idle.key));
    if (found == nullptr || !idle.idle(spec)) continue;
    const auto key =
        std::find_if(SpecKeys().begin(), SpecKeys().end(),
                     [&idle](const SpecKey& known) { return known.path() == idle.key; });
    const std::string value = TextOf(*key, spec), usual = TextOf(*key, plain);
    if (value == usual) continue;
    return absl::InvalidArgumentError(fmt::format(
        "{}: '{}' = {} would change nothing: {}; leave it out{}", found->where, idle.key, value,
        idle.why, usual.empty() ? "" : fmt::format(", or take {}, its default", usual)));
  }
  return absl::OkStatus();
}

}  // namespace longhaul
