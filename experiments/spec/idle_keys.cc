#include "experiments/spec/idle_keys.h"

#include <fmt/format.h>

#include "experiments/spec/spec_keys.h"
#include "pp_group/outer/outer_rules.h"

namespace longhaul {
namespace {

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
  for (const SpecKey& key : SpecKeys()) {
    if (key.idle.idle == nullptr) continue;
    const TomlValue* found = Find(given, key.path());
    if (found == nullptr || !key.idle.idle(spec)) continue;
    const std::string value = TextOf(key, spec), usual = TextOf(key, plain);
    if (value == usual) continue;
    return absl::InvalidArgumentError(fmt::format(
        "{}: '{}' = {} would change nothing: {}; leave it out{}", found->where, key.path(), value,
        key.idle.why, usual.empty() ? "" : fmt::format(", or take {}, its default", usual)));
  }
  return absl::OkStatus();
}

}  // namespace longhaul
