#include "pp_group/outer/outer_rules.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace longhaul {
namespace {

using Crosses = OuterRule::Crosses;
using Meets = OuterRule::Meets;
using Sends = OuterRule::Sends;

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
    {.name = "eager",
     .source = "2502.12996",
     .crosses = Crosses::kDeltas,
     .lr = 0.7,
     .momentum = 0.9,
     .overlaps = true,
     .late_round = true,
     .eager = true},
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
    {.name = "dgc",
     .source = "1712.01887",
     .crosses = Crosses::kGradients,
     .lr = 1,
     .momentum = 0,
     .codec = "dgc",
     .inner = "plain-sgd",
     .sends = Sends::kClipped,
     .density_falls = true},
    {.name = "onebit-adam",
     .source = "2102.02888",
     .crosses = Crosses::kGradients,
     .lr = 1,
     .momentum = 0,
     .codec = "onebit-adam",
     .inner = "onebit-adam",
     .sends = Sends::kMoment},
    {.name = "demo",
     .source = "2411.19870",
     .crosses = Crosses::kGradients,
     .lr = 1,
     .momentum = 0,
     .codec = "demo-dct",
     .inner = "sign-sgd",
     .sends = Sends::kTimesRate},
    {.name = "swarm",
     .source = "2301.11913",
     .crosses = Crosses::kGradients,
     .lr = 1,
     .momentum = 0,
     .codec = "dyn8-b4096"},
};

// Of every class in Python: they differ in what is sent and what its mean does.
constexpr OuterRule kInPython = {.name = "python",
                                 .source = "a file",
                                 .crosses = Crosses::kDeltas,
                                 .lr = 0.7,
                                 .momentum = 0.9,
                                 .in_python = true};
constexpr std::string_view kPython = "python:";

constexpr std::string_view kInner[] = {"adamw",     "muon", "nadam",   "onebit-adam",
                                       "plain-sgd", "sgd",  "sign-sgd"};

template <typename... Parts>
absl::Status Bad(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

}  // namespace

std::optional<PythonClass> PythonClassOf(std::string_view value) {
  if (!value.starts_with(kPython)) return std::nullopt;
  value.remove_prefix(kPython.size());
  const size_t colon = value.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == value.size()) {
    return std::nullopt;
  }
  return PythonClass{std::string(value.substr(0, colon)), std::string(value.substr(colon + 1))};
}

absl::Status CheckPythonClass(std::string_view value) {
  if (!value.starts_with(kPython) || PythonClassOf(value)) return absl::OkStatus();
  return Bad("'", std::string(value),
             "' names no class: want python:FILE:CLASS, as python:mine.py:Mine");
}

const OuterRule* FindOuterRule(std::string_view name) {
  if (PythonClassOf(name)) return &kInPython;
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
  RETURN_IF_ERROR(CheckPythonClass(name));
  std::string known;
  for (const std::string_view other : OuterNames()) {
    known += (known.empty() ? "" : ", ") + std::string(other);
  }
  return absl::NotFoundError(absl::StrCat("outer algorithm '", std::string(name),
                                          "' is not known; there are ", known,
                                          ", python:FILE:CLASS"));
}

bool ExchangesGradients(std::string_view name) {
  const OuterRule* rule = FindOuterRule(name);
  return rule != nullptr && rule->crosses == Crosses::kGradients;
}

std::vector<std::string_view> InnerOptimizerNames() {
  return {std::begin(kInner), std::end(kInner)};
}

int64_t OuterSpec::overlap() const {
  const OuterRule* rule = FindOuterRule(algorithm);
  const bool late = rule != nullptr && rule->late_round;
  return overlap_steps.value_or(late ? inner_steps / parts() : 0);
}

double OuterSpec::kept() const {
  const OuterRule* rule = FindOuterRule(algorithm);
  return mix.value_or(rule == nullptr ? 0 : rule->mix);
}

std::string InnerOptimizerOf(const std::string& given, std::string_view algorithm) {
  const OuterRule* rule = FindOuterRule(algorithm);
  return !given.empty() ? given : rule == nullptr ? "adamw" : std::string(rule->inner);
}

// Of Deep Gradient Compression 25 % cross, 6.25, 1.5625 and 0.39 %, then what the spec says.
std::vector<CodecUntil> CodecsOf(const OuterSpec& spec) {
  constexpr int64_t kEver = std::numeric_limits<int64_t>::max();
  constexpr std::string_view kFalling[] = {"topk-1024of4096+fp16+mc", "topk-256of4096+fp16+mc",
                                           "topk-64of4096+fp16+mc", "topk-16of4096+fp16+mc"};
  const OuterRule* rule = FindOuterRule(spec.algorithm);
  if (spec.warmup() <= 0 || rule == nullptr) return {{kEver, spec.codec}};
  if (!rule->density_falls) return {{spec.warmup(), "none"}, {kEver, spec.codec}};
  std::vector<CodecUntil> codecs;
  for (const std::string_view codec : kFalling) {
    const auto part = static_cast<int64_t>(codecs.size()) + 1;
    codecs.push_back({spec.warmup() / 4 * part + spec.warmup() % 4 * part / 4, std::string(codec)});
  }
  codecs.push_back({kEver, spec.codec});
  return codecs;
}

namespace {

absl::Status CheckGradients(const OuterSpec& spec) {
  const OuterRule& rule = *FindOuterRule(spec.algorithm);
  if (rule.crosses != Crosses::kGradients) {
    if (spec.warmup() == 0) return absl::OkStatus();
    return Bad("outer warmup_steps ", spec.warmup(), " are of gradients, and the algorithm '",
               spec.algorithm, "' sends none; want 0 (lr_warmup_rounds is of the outer rate)");
  }
  if (!spec.steady() || spec.rate_warmup() != 0) {
    return Bad("outer lr_schedule '", spec.steady() ? "constant" : spec.lr_schedule,
               "', lr_warmup_rounds ", spec.rate_warmup(),
               " are of outer steps, and the algorithm '", spec.algorithm, "' takes none");
  }
  if (rule.sends == Sends::kMoment && spec.warmup() < 1) {
    return Bad("the outer algorithm '", spec.algorithm,
               "' without outer warmup_steps: the second moment settles in them; want 1 or more");
  }
  if (rule.density_falls && spec.codec != "dgc" && !absl::StrContains(spec.codec, "+mc")) {
    return Bad("outer codec '", spec.codec, "' of the algorithm '", spec.algorithm,
               "' corrects no momentum: want one with +mc");
  }
  return absl::OkStatus();
}

absl::Status CheckEager(const OuterSpec& spec) {
  if (!FindOuterRule(spec.algorithm)->eager) return absl::OkStatus();
  if (spec.parts() == 1 && spec.kept() == 0 && spec.overlap() == spec.inner_steps) {
    return absl::OkStatus();
  }
  return Bad("outer fragments ", spec.parts(), ", overlap_steps ", spec.overlap(), ", mix ",
             spec.kept(), ": the algorithm '", spec.algorithm,
             "' takes everything at once and its result a round later; want 1, inner_steps ",
             spec.inner_steps, ", 0");
}

absl::Status CheckLevels(const OuterSpec& spec, int64_t groups) {
  const bool levels = FindOuterRule(spec.algorithm)->meets == Meets::kLevels;
  const int64_t cluster = spec.cluster_groups.value_or(0), every = spec.global_every.value_or(0);
  if (!levels) {
    if (cluster == 0 && every == 0 && spec.global_codec.empty()) {
      return absl::OkStatus();
    }
    return Bad("outer cluster_groups ", cluster, ", global_every ", every, ", global_codec '",
               spec.global_codec, "' are of levels; the algorithm '", spec.algorithm, "' has none");
  }
  if (spec.inner_steps == 0) return absl::OkStatus();  // they never meet
  if (cluster < 1 || every < 1 || groups % cluster != 0) {
    return Bad("outer cluster_groups ", cluster, ", global_every ", every, " with ", groups,
               " groups: want clusters of a number of groups that divides them, which all "
               "meet after every so many rounds, at least 1");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckOuterFigures(const OuterSpec& spec, int64_t blocks, int64_t groups) {
  RETURN_IF_ERROR(CheckOuterName(spec.algorithm));
  RETURN_IF_ERROR(CheckLevels(spec, groups));
  RETURN_IF_ERROR(CheckGradients(spec));
  RETURN_IF_ERROR(CheckEager(spec));
  const OuterRule& rule = *FindOuterRule(spec.algorithm);
  if (rule.meets == Meets::kPairs && groups < 2 && spec.inner_steps > 0) {
    return Bad("the outer algorithm '", spec.algorithm, "' with 1 group: it has nobody to meet");
  }
  if (!rule.overlaps && (spec.parts() != 1 || spec.overlap() != 0 || spec.kept() != 0)) {
    return Bad("outer fragments ", spec.parts(), ", overlap_steps ", spec.overlap(), ", mix ",
               spec.kept(), ": the algorithm '", spec.algorithm,
               "' exchanges everything at once and waits for it; want 1, 0, 0");
  }
  if (spec.parts() > blocks) {
    return Bad("outer fragments ", spec.parts(), " of ", blocks,
               " blocks: a fragment is at least one block");
  }
  if (spec.inner_steps % spec.parts() != 0) {
    return Bad("outer inner_steps ", spec.inner_steps, " is not a multiple of fragments ",
               spec.parts());
  }
  if (spec.overlap() > 0 && spec.overlap() > spec.inner_steps / spec.parts()) {
    return Bad("outer overlap_steps ", spec.overlap(), ": the next fragment is begun after ",
               spec.inner_steps / spec.parts(), " steps (inner_steps ", spec.inner_steps,
               " / fragments ", spec.parts(), "); want at most that");
  }
  return absl::OkStatus();
}

}  // namespace longhaul
