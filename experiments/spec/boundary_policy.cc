#include "experiments/spec/boundary_policy.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/status_macros.h"
#include "netem/topology/table_reader.h"

namespace longhaul {
namespace {

using Policy = RunSpec::Boundary::Policy;

constexpr char kPolicyTable[] = "boundary.policy";
constexpr std::string_view kNoCodec = "none";
constexpr size_t kMostChoices = 16;

// What both a policy and a warm-up want: codecs change between two ranks, of one boundary, all along.
std::string RefusedChange(const RunSpec& spec) {
  if (spec.schedule.chunks > 1) {
    return fmt::format(
        "changes codecs between two ranks, and with schedule.chunks = {} those have several "
        "boundaries; want 1",
        spec.schedule.chunks);
  }
  if (spec.outer.on_group_loss == "continue") {
    return "knows no groups that come and go; want outer.on_group_loss = \"end\"";
  }
  return "";
}

void CheckWarmUp(TableReader& r, const RunSpec& spec) {
  const int64_t steps = spec.boundary.warmup_steps.value_or(0);
  if (steps == 0) return;
  const auto check = [&](bool holds, const std::string& why) {
    r.Check(holds, "warmup_steps", fmt::format("= {} {}", steps, why));
  };
  check(steps < Steps(spec), fmt::format("of {} steps leaves none to the codecs; want 0 to {}",
                                         Steps(spec), Steps(spec) - 1));
  const RunSpec::Boundary::Cut codecs = CodecText(spec);
  check(codecs.forward != kNoCodec || codecs.backward != kNoCodec,
        "has no codec to begin with: boundary.forward and boundary.backward are \"none\"");
  const std::string refused = RefusedChange(spec);
  check(refused.empty(), refused);
}

void CheckSamples(TableReader& r, const RunSpec& spec) {
  const RunSpec::Boundary::Cut all{spec.boundary.forward, spec.boundary.backward};
  std::vector<RunSpec::Boundary::Cut> pairs = {all};
  for (const auto& [boundary, cut] : spec.boundary.cuts) pairs.push_back(cut);
  for (const RunSpec::Boundary::Cut& codecs : pairs) {
    const char* const key = spec.boundary.cuts.empty() ? "forward" : "cuts";
    r.Check(!RemembersSamples(codecs.backward), key == std::string("cuts") ? key : "backward",
            fmt::format("has '{}', which remembers a sample's activation; gradients go without: "
                        "want int8-b64 or minmax6-b64",
                        codecs.backward));
    if (!RemembersSamples(codecs.forward)) continue;
    r.Check(spec.train.batch_rows == spec.train.microbatches, key,
            fmt::format("has '{}', which remembers samples, so that a micro-batch must be one "
                        "row: train.microbatches = {}, train.batch_rows = {}; want {}",
                        codecs.forward, spec.train.microbatches, spec.train.batch_rows,
                        spec.train.batch_rows));
    r.Check(spec.boundary.cuts.empty() || spec.schedule.chunks == 1, key,
            fmt::format("has '{}' at some boundaries, and with schedule.chunks = {} a rank has "
                        "several; want it at all, or 1",
                        codecs.forward, spec.schedule.chunks));
  }
}

void ReadChoices(TableReader& r, const char* key, const std::string& fixed, const SpecNames& names,
                 std::vector<std::string>* choices) {
  r.Allow(key, choices);
  if (!r.Has(key) || !r.status().ok()) return;
  r.Check(choices->size() >= 2 && choices->size() <= kMostChoices, key,
          fmt::format("has {} codecs; want 2 to {}, the coarsest first", choices->size(),
                      kMostChoices));
  for (const std::string& codec : *choices) {
    if (r.status().ok()) r.Known(key, codec, names.codec);
  }
  r.Check(fixed == kNoCodec, key,
          fmt::format("stands beside boundary.{} = '{}'; want 'none' there", key, fixed));
}

// What one kind of policy has and the others have not.
void ReadTargets(TableReader& r, Policy& policy) {
  r.Allow("bounds", &policy.bounds);
  r.Allow("target_ms", &policy.target_ms);
  r.Allow("target_nmse", &policy.target_nmse);
  if (!r.status().ok()) return;
  for (const auto& [key, by] :
       {std::pair("bounds", "magnitude"), std::pair("target_ms", "bandwidth"),
        std::pair("target_nmse", "accuracy")}) {
    const bool wanted = policy.by == by;
    r.Check(r.Has(key) == wanted, key,
            wanted ? fmt::format("is missing: by = \"{}\" needs it", by)
                   : fmt::format("is of by = \"{}\", and by is \"{}\"", by, policy.by));
  }
  if (!r.status().ok()) return;
  if (r.Has("target_ms")) r.Within("target_ms", policy.target_ms, 1e-3, 1e7, "ms");
  if (r.Has("target_nmse")) r.Within("target_nmse", policy.target_nmse, 1e-12, 1, "");
  double before = 0;
  for (const double bound : policy.bounds) {
    r.Check(bound > before && bound <= 1e30, "bounds",
            fmt::format("= [{}]; want ascending root mean squares above 0, at most 1e30",
                        fmt::join(policy.bounds, ", ")));
    before = bound;
  }
  for (const auto& [key, choices] :
       {std::pair("forward", &policy.forward), std::pair("backward", &policy.backward)}) {
    r.Check(
        policy.by != "magnitude" || choices->empty() || policy.bounds.size() + 1 == choices->size(),
        "bounds",
        fmt::format("has {} values; want one between each two of the {} codecs of {}",
                    policy.bounds.size(), choices->size(), key));
  }
}

absl::Status ReadPolicy(const TomlValue& root, const SpecNames& names, RunSpec& spec) {
  TableReader r(root, kPolicyTable);
  Policy policy;
  r.Require("by", &policy.by);
  if (r.status().ok()) r.OneOf("by", policy.by, {"magnitude", "bandwidth", "accuracy"});
  ReadChoices(r, "forward", spec.boundary.forward, names, &policy.forward);
  ReadChoices(r, "backward", spec.boundary.backward, names, &policy.backward);
  ReadTargets(r, policy);
  RETURN_IF_ERROR(r.Finish());
  const auto check = [&](bool holds, const std::string& why) { r.Check(holds, "by", why); };
  const std::string refused = RefusedChange(spec);
  check(!policy.forward.empty() || !policy.backward.empty(),
        "has nothing to choose from; want a list forward, backward or both");
  check(spec.boundary.cuts.empty(),
        "stands beside [boundary.cuts]; want one of them: that is the policy by layer");
  check(refused.empty(), refused);
  check(policy.by != "bandwidth" || spec.net.transport == "ucx" || spec.simulated_clock(),
        "= \"bandwidth\" needs links: net.transport = \"loopback\" has none; want \"ucx\", or "
        "net.clock = \"simulated\"");
  check(policy.by == "bandwidth" || !spec.injected(),
        fmt::format("= \"{}\" looks at tensors, and a table [compute] makes none", policy.by));
  if (!r.status().ok()) return r.status();
  spec.boundary.policy = std::move(policy);
  return absl::OkStatus();
}

std::string QuotedNames(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back(TomlQuote(word));
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

}  // namespace

bool RemembersSamples(std::string_view codec) { return codec.starts_with("aqsgd"); }

absl::Status ReadBoundaryPolicy(const TomlValue& root, const SpecNames& names, RunSpec& spec) {
  if (Find(root, kPolicyTable) != nullptr) {
    RETURN_IF_ERROR(ReadPolicy(root, names, spec));
  }
  TableReader r(root, "boundary");
  CheckSamples(r, spec);
  CheckWarmUp(r, spec);
  return r.status();
}

SpecLines BoundaryPolicyLines(const RunSpec& spec) {
  if (!spec.boundary.policy) return {};
  const Policy& p = *spec.boundary.policy;
  SpecLines lines = {{kPolicyTable, "by", TomlQuote(p.by)}};
  const auto line = [&lines](bool given, const char* key, std::string value) {
    if (given) lines.push_back({kPolicyTable, key, std::move(value)});
  };
  line(!p.forward.empty(), "forward", QuotedNames(p.forward));
  line(!p.backward.empty(), "backward", QuotedNames(p.backward));
  std::vector<std::string> bounds;
  for (const double bound : p.bounds) bounds.push_back(TomlNumber(bound));
  line(!bounds.empty(), "bounds", fmt::format("[{}]", fmt::join(bounds, ", ")));
  line(p.target_ms > 0, "target_ms", TomlNumber(p.target_ms));
  line(p.target_nmse > 0, "target_nmse", TomlNumber(p.target_nmse));
  return lines;
}

bool SendsExact(const RunSpec& spec) {
  const RunSpec::Boundary& b = spec.boundary;
  return b.forward == "none" && b.backward == "none" && b.cuts.empty() && !b.policy;
}

}  // namespace longhaul
