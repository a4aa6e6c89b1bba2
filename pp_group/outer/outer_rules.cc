#include "pp_group/outer/outer_rules.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace longhaul {
namespace {

using Crosses = OuterRule::Crosses;
using Meets = OuterRule::Meets;

// Adding an algorithm: one line here; if it does what none of the classes in algorithms.cc does, a
// file pair and a line there.
constexpr OuterRule kRules[] = {
    {.name = "diloco",
     .source = "2311.08105",
     .crosses = Crosses::kDeltas,
     .lr = 0.7,
     .momentum = 0.9},
    {.name = "streaming",
     .source = "2501.18512",
     .crosses = Crosses::kDeltas,
     .lr = 0.4,
     .momentum = 0.9,
     .overlaps = true,
     .mix = 0.5},
    {.name = "diloco-x",
     .source = "2506.21263",
     .crosses = Crosses::kDeltas,
     .lr = 0.7,
     .momentum = 0.9,
     .codec = "diloco-x",
     .overlaps = true,
     .late_round = true},
    {.name = "muloco",
     .source = "2505.23725",
     .crosses = Crosses::kDeltas,
     .lr = 0.8,
     .momentum = 0.9,
     .codec = "stat2+ef95",
     .inner = "muon",
     .overlaps = true},
    {.name = "sparseloco",
     .source = "2508.15706",
     .crosses = Crosses::kDeltas,
     .lr = 1,
     .momentum = 0,
     .codec = "sparseloco"},
    {.name = "noloco",
     .source = "2506.10911",
     .crosses = Crosses::kParameters,
     .meets = Meets::kPairs,
     .lr = 0.7,
     .momentum = 0.5,
     .codec = "none"},
    {.name = "hierarchical",
     .source = "2311.08105, in levels",
     .crosses = Crosses::kDeltas,
     .meets = Meets::kLevels,
     .lr = 0.7,
     .momentum = 0.9},
    {.name = "dp",
     .source = "synchronous SGD",
     .crosses = Crosses::kGradients,
     .lr = 0.7,
     .momentum = 0.9},
    {.name = "powersgd",
     .source = "1905.13727",
     .crosses = Crosses::kGradients,
     .lr = 1,
     .momentum = 0,
     .codec = "powersgd-r4",
     .inner = "sgd"},
};

constexpr std::string_view kInner[] = {"adamw", "muon", "sgd", "sign-sgd"};

template <typename... Parts>
absl::Status Bad(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

}  // namespace

const OuterRule* FindOuterRule(std::string_view name) {
  const auto* found = std::find_if(std::begin(kRules), std::end(kRules),
                                   [name](const OuterRule& rule) { return rule.name == name; });
  return found == std::end(kRules) ? nullptr : found;
}

std::vector<std::string_view> OuterNames() {
  std::vector<std::string_view> names;
  for (const OuterRule& rule : kRules) names.push_back(rule.name);
  return names;
}

absl::Status CheckOuterName(std::string_view name) {
  if (FindOuterRule(name) != nullptr) return absl::OkStatus();
  std::string known;
  for (const std::string_view other : OuterNames()) {
    known += (known.empty() ? "" : ", ") + std::string(other);
  }
  return absl::NotFoundError(
      absl::StrCat("outer algorithm '", std::string(name), "' is not known; there are ", known));
}

bool ExchangesGradients(std::string_view name) {
  const OuterRule* rule = FindOuterRule(name);
  return rule != nullptr && rule->crosses == Crosses::kGradients;
}

std::vector<std::string_view> InnerOptimizerNames() {
  return {std::begin(kInner), std::end(kInner)};
}

namespace {

absl::Status CheckLevels(const OuterSpec& spec, int64_t groups) {
  const bool levels = FindOuterRule(spec.algorithm)->meets == Meets::kLevels;
  if (!levels) {
    if (spec.cluster == 0 && spec.global_every == 0 && spec.global_codec.empty()) {
      return absl::OkStatus();
    }
    return Bad("outer cluster_groups ", spec.cluster, ", global_every ", spec.global_every,
               ", global_codec '", spec.global_codec, "' are of levels; the algorithm '",
               spec.algorithm, "' has none");
  }
  if (spec.inner_steps == 0) return absl::OkStatus();  // they never meet
  if (spec.cluster < 1 || spec.global_every < 1 || groups % spec.cluster != 0) {
    return Bad("outer cluster_groups ", spec.cluster, ", global_every ", spec.global_every,
               " with ", groups,
               " groups: want clusters of a number of groups that divides them, which all "
               "meet after every so many rounds, at least 1");
  }
  return absl::OkStatus();
}

absl::Status CheckMean(const OuterSpec& spec) {
  if (spec.mean == "all" || spec.mean == "senders") return absl::OkStatus();
  return Bad("outer mean '", spec.mean, "'; want 'all' or 'senders'");
}

}  // namespace

absl::Status CheckOuterFigures(const OuterSpec& spec, int64_t blocks, int64_t groups) {
  if (absl::Status s = CheckOuterName(spec.algorithm); !s.ok()) return s;
  if (absl::Status s = CheckLevels(spec, groups); !s.ok()) return s;
  if (absl::Status s = CheckMean(spec); !s.ok()) return s;
  const OuterRule& rule = *FindOuterRule(spec.algorithm);
  if (rule.meets == Meets::kPairs && groups < 2 && spec.inner_steps > 0) {
    return Bad("the outer algorithm '", spec.algorithm, "' with 1 group: it has nobody to meet");
  }
  if (!rule.overlaps && (spec.fragments != 1 || spec.overlap != 0 || spec.mix != 0)) {
    return Bad("outer fragments ", spec.fragments, ", overlap_steps ", spec.overlap, ", mix ",
               spec.mix, ": the algorithm '", spec.algorithm,
               "' exchanges everything at once and waits for it; want 1, 0, 0");
  }
  if (spec.fragments < 1 || spec.overlap < 0 || !(spec.mix >= 0 && spec.mix <= 1)) {
    return Bad("outer fragments ", spec.fragments, ", overlap_steps ", spec.overlap, ", mix ",
               spec.mix, ": want at least 1, at least 0, 0 to 1");
  }
  if (spec.fragments > blocks) {
    return Bad("outer fragments ", spec.fragments, " of ", blocks,
               " blocks: a fragment is at least one block");
  }
  if (spec.inner_steps % spec.fragments != 0) {
    return Bad("outer inner_steps ", spec.inner_steps, " is not a multiple of fragments ",
               spec.fragments);
  }
  if (spec.overlap > 0 && spec.overlap > spec.inner_steps / spec.fragments) {
    return Bad("outer overlap_steps ", spec.overlap, ": the next fragment is begun after ",
               spec.inner_steps / spec.fragments, " steps (inner_steps ", spec.inner_steps,
               " / fragments ", spec.fragments, "); want at most that");
  }
  return absl::OkStatus();
}

}  // namespace longhaul
