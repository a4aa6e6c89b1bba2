#include "planning/plan/next_campaign.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace longhaul::plan {
namespace {

// The unsplit, uncompressed, undivided run with the same global batch.
RunSpec ReferenceOf(const RunSpec& run) {
  RunSpec base = run;
  base.train.batch_rows = run.train.batch_rows * run.outer.groups;
  base.schedule = {.kind = "1f1b", .stages = 1};
  base.boundary = {.forward = "none", .backward = "none"};
  base.outer = {};
  base.compute.reset();
  base.net = {.transport = "loopback", .profile = ""};
  return base;
}

std::vector<std::string> Lines(const std::string& text) { return absl::StrSplit(text, '\n'); }

// A campaign's base is a spec without what arms and budgets say.
std::string BaseText(const RunSpec& run) {
  std::string text;
  for (const std::string& line : Lines(ToToml(ReferenceOf(run)))) {
    const auto is = [line](const char* key) { return absl::StartsWith(line, key); };
    if (is("seed = ") || is("tokens = ") || is("steps = ") || is("warmup_steps = ")) continue;
    text += line + "\n";
  }
  return text;
}

std::string OuterText(const RunSpec& run, const std::string& codec) {
  return fmt::format(
      "outer.groups = {}\nouter.algorithm = {}\nouter.inner_steps = {}\nouter.lr = {}\n"
      "outer.momentum = {}\nouter.codec = {}\ntrain.batch_rows = {}\n",
      run.outer.groups, TomlQuote(run.outer.algorithm), run.outer.inner_steps,
      TomlNumber(run.outer.lr), TomlNumber(run.outer.momentum), TomlQuote(codec),
      run.train.batch_rows);
}

std::string ArmText(const std::string& name, const std::string& keys) {
  return fmt::format("\n[[arm]]\nname = {}\n{}", TomlQuote(name), keys);
}

std::string BoundaryArm(const RunSpec& run) {
  return ArmText("boundaries",
                 fmt::format("stages = {}\nforward = {}\nbackward = {}\n", run.stages(),
                             TomlQuote(run.boundary.forward), TomlQuote(run.boundary.backward)));
}

std::string ArmsOf(const Candidate& c, std::optional<EtaFactor::Of> of) {
  const RunSpec& run = c.spec;
  const std::string plain = ArmText("rounds", OuterText(run, "none"));
  std::string arms;
  if (!of || *of == EtaFactor::Of::kActivations) {
    if (c.codec != "none / none" && run.stages() > 1) arms += BoundaryArm(run);
  }
  if (c.outer_codec.empty() || (of && *of == EtaFactor::Of::kActivations)) return arms;
  if (run.outer.algorithm == "diloco") arms += plain;
  if (c.outer_codec != "none" && (!of || *of == EtaFactor::Of::kOuterCodec)) {
    arms += ArmText("outer-codec", OuterText(run, c.outer_codec));
  } else if (run.outer.algorithm != "diloco") {
    arms += ArmText("rounds", OuterText(run, c.outer_codec));
  }
  return arms;
}

const EtaFactor* FactorNamed(const PlanRow& row, const std::string& name) {
  const auto found = std::find_if(row.factors.begin(), row.factors.end(),
                                  [&](const EtaFactor& f) { return f.name == name; });
  return found == row.factors.end() ? nullptr : &*found;
}

}  // namespace

NextStep NextStepOf(const Plan& plan) {
  if (!plan.verdict) {
    const auto unknown = std::find_if(plan.rows.begin(), plan.rows.end(), [](const PlanRow& r) {
      return r.within && !r.unknown.empty();
    });
    if (unknown == plan.rows.end()) return {};
    return {NextStep::Kind::kUnknown, static_cast<size_t>(unknown - plan.rows.begin())};
  }
  if (plan.verdict->first_wins) return {};
  const Verdict::Share& most = plan.verdict->shares.front();
  return {.kind = most.name == kClockName ? NextStep::Kind::kClock : NextStep::Kind::kFactor,
          .row = static_cast<size_t>(most.row),
          .factor = most.name,
          .share = most.share};
}

std::string NextText(const Plan& plan, const std::string& spec) {
  const NextStep next = NextStepOf(plan);
  const std::string measure =
      fmt::format("longhaul plan {} --next next.toml && longhaul measure next.toml", spec);
  switch (next.kind) {
    case NextStep::Kind::kClock:
      return fmt::format(
          "Measure next: {:.0f} % of the interval between 1 and 2 is what the clock may be off by; "
          "time both: longhaul plan {} --write choices && longhaul run choices/choice-1.toml && "
          "longhaul run choices/choice-2.toml",
          100 * next.share, spec);
    case NextStep::Kind::kFactor:
      return fmt::format("Measure next: {:.0f} % of the interval between 1 and 2 is {}: {}",
                         100 * next.share, next.factor, measure);
    case NextStep::Kind::kUnknown:
      return fmt::format("Measure next: {} (row {}): {}", plan.rows[next.row].unknown, next.row + 1,
                         measure);
    case NextStep::Kind::kNothing:
      break;
  }
  return plan.verdict ? "Measure next: nothing; the first two are told apart."
                      : "Measure next: nothing; there is one choice. Add to the lists of [plan].";
}

absl::StatusOr<std::string> NextCampaign(const Plan& plan) {
  const NextStep next = NextStepOf(plan);
  if (next.kind == NextStep::Kind::kNothing || next.kind == NextStep::Kind::kClock) {
    return absl::FailedPreconditionError(
        next.kind == NextStep::Kind::kClock
            ? "--next: the clock decides between the first two, no campaign; see --write"
            : "--next: nothing is left to measure between the first two");
  }
  const PlanRow& row = plan.rows[next.row];
  const EtaFactor* factor = FactorNamed(row, next.factor);
  const std::string arms =
      ArmsOf(row.choice, factor == nullptr ? std::nullopt : std::optional(factor->of));
  const int64_t tokens = std::llround(std::exp(plan.ln_reference_tokens.value));
  const std::string question = fmt::format(
      "What is {}, which decides between the first two of a plan?",
      factor == nullptr ? "the quality of a choice that nobody measured" : factor->name);
  return fmt::format(
      "# Question: {}\n[campaign]\nname = \"next\"\nquestion = {}\nseeds = [1, 2, 3, 4, 5, 6, 7, "
      "8]\nbudgets = [0.35, 0.5, 0.65, 0.8, 1.0, 1.1]\ncontrol_budgets = [0.9, 1.0]\nd0_tokens = "
      "{}\nwarmup_share = 0.1\n{}\n{}",
      question, TomlQuote(question), tokens, arms, BaseText(row.choice.spec));
}

}  // namespace longhaul::plan
