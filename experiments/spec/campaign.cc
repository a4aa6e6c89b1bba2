#include "experiments/spec/campaign.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/status_macros.h"
#include "experiments/spec/campaign_blocks.h"
#include "experiments/spec/idle_keys.h"
#include "experiments/spec/known_names.h"
#include "experiments/spec/program_table.h"
#include "experiments/spec/spec_changes.h"
#include "experiments/spec/spec_keys.h"
#include "experiments/spec/spec_paths.h"
#include "netem/topology/table_reader.h"

namespace longhaul {
namespace {

template <typename T>
bool Distinct(const std::vector<T>& values) {
  return std::set<T>(values.begin(), values.end()).size() == values.size();
}

// What a campaign may say; its base and arms are run specs with the bounds of their keys.
constexpr size_t kMaxRuns = 4096, kMaxArms = 256, kNameBytes = 64, kQuestionBytes = 1024;
constexpr double kLeastBudget = 1e-6, kMostBudget = 1000;  // fractions of D0
constexpr double kLeastNat = 1e-9, kMostNat = 1e3;

// Every value in its range and none twice, so that a NaN is no value.
template <typename T>
void CheckList(TableReader& r, const std::string& key, const std::vector<T>& values, T least,
               T most) {
  for (const T value : values) r.Within(key, value, least, most, "each");
  if (r.status().ok()) r.Check(Distinct(values), key, "holds a value twice");
}

absl::Status ReadCampaignTable(const TomlValue& root, CampaignSpec& c) {
  TableReader r(root, "campaign");
  r.Require("name", &c.name);
  r.Require("question", &c.question);
  r.Require("seeds", &c.seeds);
  r.Require("d0_tokens", &c.d0_tokens);
  r.Require("budgets", &c.budgets);
  r.Allow("control_budgets", &c.control_budgets);
  r.Allow("warmup_share", &c.warmup_share);
  r.Allow("target_loss_nat", &c.target_loss_nat);
  r.Allow("primary", &c.primary);
  r.Allow("tier", &c.tier);
  r.Allow("blocks", &c.blocks);
  for (const std::string_view key : kBlockKeys) r.Skip(std::string(key));
  r.Allow("assumed_sigma_nat", &c.assumed_sigma_nat);
  r.Allow("assumed_rho", &c.assumed_rho);
  r.Allow("assumed_slope_nat", &c.assumed_slope_nat);
  r.Line("name", c.name, kNameBytes);
  r.Check(c.name.find('/') == std::string::npos, "name", "must not hold a '/'");
  r.Line("question", c.question, kQuestionBytes);
  r.Check(!c.seeds.empty(), "seeds", "must be at least one");
  CheckList<int64_t>(r, "seeds", c.seeds, 0, std::numeric_limits<int64_t>::max());
  r.Within("d0_tokens", c.d0_tokens, 1, kMaxTokens, "tokens");
  CheckList(r, "budgets", c.budgets, kLeastBudget, kMostBudget);
  CheckList(r, "control_budgets", c.control_budgets, kLeastBudget, kMostBudget);
  if (c.target_loss_nat)
    r.Within("target_loss_nat", *c.target_loss_nat, kLeastNat, kMostNat, "nat");
  if (c.warmup_share) r.Within("warmup_share", *c.warmup_share, 0, 1);
  r.Check(!c.warmup_share || Find(root, "train.warmup_steps") == nullptr, "warmup_share",
          "is given, and train.warmup_steps too; give one");
  const std::string* rate = FindAs<std::string>(root, "train.schedule");
  r.Check(rate == nullptr || *rate != "wsd" || Find(root, "train.warmup_steps") != nullptr,
          "budgets",
          "branch off one run where train.schedule is \"wsd\", and need its warm-up: give "
          "train.warmup_steps");
  r.Check(c.budgets.size() >= 2, "budgets", "must be at least two distinct fractions");
  r.Check(std::count(c.budgets.begin(), c.budgets.end(), 1.0) == 1, "budgets",
          "must contain 1.0: arms are compared with the reference at D0");
  r.Within("assumed_sigma_nat", c.assumed_sigma_nat, kLeastNat, kMostNat, "nat");
  r.Within("assumed_rho", c.assumed_rho, 0, 0.999999);
  r.Within("assumed_slope_nat", c.assumed_slope_nat, kLeastNat, kMostNat, "nat");
  return r.Finish();
}

// The base of all runs: the file without what makes it a campaign.
absl::StatusOr<TomlValue> Base(const TomlValue& root) {
  TomlValue base = root;
  Erase(base, "campaign");
  Erase(base, "arm");
  for (const auto& [key, why] :
       {std::pair("seed", "campaign.seeds"), std::pair("train.tokens", "campaign.d0_tokens"),
        std::pair("train.steps", "campaign.d0_tokens")}) {
    if (const TomlValue* given = Find(base, key)) {
      return absl::InvalidArgumentError(
          fmt::format("{}: '{}' is set by {} in a campaign", given->where, key, why));
    }
  }
  return base;
}

// One run. `warmup_share` of its steps are the warm-up, unless the tree says how many.
absl::StatusOr<RunSpec> Resolve(TomlValue tree, int64_t seed, double tokens,
                                std::optional<double> warmup_share, const SpecNames& names) {
  const std::string where = tree.where;
  const bool own_warmup = Find(tree, "train.warmup_steps") != nullptr;
  for (auto [path, value] :
       {std::pair("seed", seed),
        std::pair("train.tokens", std::max<int64_t>(1, static_cast<int64_t>(tokens + 0.5)))}) {
    RETURN_IF_ERROR(SetByPath(tree, path, TomlValue{value, where}));
  }
  if (HasProgram(tree)) return ReadProgramSpec(tree, names);
  absl::StatusOr<RunSpec> spec = ReadRunSpec(tree, names);
  if (spec.ok() && warmup_share && !own_warmup) {
    const double steps = *warmup_share * static_cast<double>(Steps(*spec));
    spec->train.warmup_steps = static_cast<int64_t>(std::ceil(steps));
  }
  return spec;
}

struct Part {  // of a campaign: one arm at one budget
  std::string arm;
  Role role;
  double budget_fraction;
  TomlValue tree;
  std::string reference = {};
  bool held_out = false;
  TomlValue own = {};  // of an arm, what it does not share
};

// One [[arm]] laid on the base.
absl::StatusOr<TomlValue> ArmTree(const TomlValue& base, const TomlValue& arm, Part& part) {
  TableReader r = TableReader::Of(arm, "arm");
  r.Require("name", &part.arm);
  r.Allow("reference", &part.reference);
  r.Allow("held_out", &part.held_out);
  r.Allow("budget", &part.budget_fraction);
  for (const char* key :
       {"stages", "forward", "backward", "model", "data", "train", "schedule", "boundary", "outer",
        "net", "eval", "checkpoint", "limits", "fault", "files", "program"}) {
    r.Skip(key);
  }
  r.Line("name", part.arm, kArmNameBytes);
  r.Within("budget", part.budget_fraction, kLeastBudget, kMostBudget);
  r.Check(part.arm.find('@') == std::string::npos, "name", "must not hold an '@'");
  RETURN_IF_ERROR(r.Finish());
  TomlValue over = arm;
  Erase(over, "name");
  Erase(over, "reference");
  Erase(over, "held_out");
  Erase(over, "budget");
  TomlValue tree = base;
  for (const auto& [shorthand, path] :
       {std::pair("stages", "schedule.stages"), std::pair("forward", "boundary.forward"),
        std::pair("backward", "boundary.backward")}) {
    if (const TomlValue* given = Find(arm, shorthand)) {
      Erase(over, shorthand);
      RETURN_IF_ERROR(SetByPath(over, path, *given));
    }
  }
  Merge(tree, over);
  part.own = std::move(over);
  return tree;
}

// A [program] keeps its stages: one that is a pipeline may be none without them.
absl::StatusOr<TomlValue> ReferenceTree(TomlValue base) {
  Erase(base, "schedule.cuts");
  for (const char* key : {"boundary.cuts", "boundary.policy", "boundary.warmup_steps"}) {
    Erase(base, key);
  }
  if (!HasProgram(base)) {
    RETURN_IF_ERROR(SetByPath(base, "schedule.stages", {int64_t{1}, base.where}));
  }
  for (auto [path, value] :
       {std::pair<const char*, TomlValue>("boundary.forward", {std::string("none"), base.where}),
        {"boundary.backward", {std::string("none"), base.where}}}) {
    RETURN_IF_ERROR(SetByPath(base, path, value));
  }
  return base;
}

absl::StatusOr<std::vector<Part>> Parts(const TomlValue& root, const CampaignSpec& c) {
  ASSIGN_OR_RETURN(TomlValue base, Base(root));
  ASSIGN_OR_RETURN(TomlValue reference, ReferenceTree(base));
  std::vector<Part> parts;
  for (const double b : c.budgets) {
    parts.push_back({fmt::format("reference@{}", b), Role::kReference, b, reference});
  }
  for (const double b : c.control_budgets) {
    parts.push_back({fmt::format("control@{}", b), Role::kControl, b, reference});
  }
  const auto* list = FindAs<TomlValue::Array>(root, "arm");
  if (list == nullptr || list->empty()) {
    return absl::InvalidArgumentError(root.where + ": a campaign needs at least one [[arm]]");
  }
  const size_t runs = (parts.size() + list->size()) * c.seeds.size();
  if (list->size() > kMaxArms || runs > kMaxRuns) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: {} arms and {} budgets at {} seeds; want at most {} arms and {} runs",
        list->front().where, list->size(), parts.size(), c.seeds.size(), kMaxArms, kMaxRuns));
  }
  for (const TomlValue& arm : *list) {
    Part part{{}, Role::kArm, 1, {}, kD0Reference};
    ASSIGN_OR_RETURN(TomlValue tree, ArmTree(base, arm, part));
    for (const Part& other : parts) {
      if (other.arm == part.arm) {
        return absl::InvalidArgumentError(
            fmt::format("{}: two arms are named '{}'", arm.where, part.arm));
      }
    }
    part.tree = std::move(tree);
    parts.push_back(std::move(part));
  }
  return parts;
}

absl::Status ChoosePrimary(const TomlValue& root, CampaignSpec& c) {
  if (!c.primary.empty()) {
    if (std::count(c.arms.begin(), c.arms.end(), c.primary) != 0) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format(
        "{}: 'campaign.primary' names no arm: '{}'; known: {}",
        Find(root, "campaign.primary")->where, Shown(c.primary), fmt::join(c.arms, ", ")));
  }
  const PlannedRun *with_q = nullptr, *at_four = nullptr;
  for (const PlannedRun& run : c.runs) {
    if (run.seed != c.seeds.front()) break;
    if (!HasQ(c, run)) continue;
    if (with_q == nullptr) with_q = &run;
    if (at_four == nullptr && run.spec.schedule.stages == 4) at_four = &run;
  }
  c.primary = at_four != nullptr ? at_four->arm : with_q != nullptr ? with_q->arm : c.arms.front();
  return absl::OkStatus();
}

// DiLoCo's own reference: synchronous data parallel over the same global batch.
bool IsDataParallelOf(const RunSpec& reference, const RunSpec& arm,
                      const std::vector<SpecChange>& changes) {
  return reference.outer.algorithm == "dp" && TokensPerStep(reference) == TokensPerStep(arm) &&
         std::all_of(changes.begin(), changes.end(),
                     [](const SpecChange& change) { return MeaningOf(change) == Change::kOuter; });
}

// An arm that names a reference asks for a q or a DiLoCo factor against it, so it must be able to
// have one.
absl::Status CheckReferences(const TomlValue& root, const CampaignSpec& c) {
  const auto& arms = std::get<TomlValue::Array>(Find(root, "arm")->value);
  for (const PlannedRun& run : c.runs) {
    if (run.seed != c.seeds.front()) break;  // the others differ in the seed alone
    if (run.role != Role::kArm || run.reference == kD0Reference) continue;
    const size_t index =
        static_cast<size_t>(std::find(c.arms.begin(), c.arms.end(), run.arm) - c.arms.begin());
    const auto wrong = [&](const std::string& why) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: 'reference' of arm '{}' {}", Find(arms[index], "reference")->where, run.arm, why));
    };
    const PlannedRun* reference = ReferenceOf(c, run);
    if (reference == nullptr || reference->role != Role::kArm || reference == &run) {
      return wrong(fmt::format("names no other arm: '{}'; known: {}", Shown(run.reference),
                               fmt::join(c.arms, ", ")));
    }
    const RunSpec::Boundary::Cut boundary = CodecText(reference->spec);
    if (boundary.forward != "none" || boundary.backward != "none") {
      return wrong(
          fmt::format("is arm '{}', whose boundary codecs are not \"none\"", run.reference));
    }
    const auto changes = ChangesBesideCodecs(reference->spec, run.spec);
    if (!changes.empty() && !IsDataParallelOf(reference->spec, run.spec, changes)) {
      return wrong(fmt::format("is arm '{}', which differs in more than stages and codecs: {}",
                               run.reference, ToString(changes)));
    }
  }
  return absl::OkStatus();
}

// H counts up to a run's own steps: beyond them it changes nothing.
absl::Status CheckInnerSteps(const TomlValue& root, const CampaignSpec& c) {
  std::vector<const PlannedRun*> whole;  // one outer step, at the end
  for (const PlannedRun& run : c.runs) {
    if (run.seed != c.seeds.front()) break;
    if (run.role == Role::kArm && run.spec.outer.inner_steps >= Steps(run.spec)) {
      whole.push_back(&run);
    }
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    for (size_t j = i + 1; j < whole.size(); ++j) {
      const auto changes = SpecChanges(whole[i]->spec, whole[j]->spec);
      if (changes.size() != 1 || changes[0].key != "outer.inner_steps") continue;
      return absl::InvalidArgumentError(fmt::format(
          "{}: arms '{}' and '{}' would train alike: their {} steps are no more than either's "
          "outer.inner_steps; raise d0_tokens or lower inner_steps",
          Find(root, "campaign")->where, whole[i]->arm, whole[j]->arm, Steps(whole[i]->spec)));
    }
  }
  return absl::OkStatus();
}

// A campaign prices the crossings of one stage a rank.
absl::Status CheckOneStageARank(const TomlValue& spec) {
  for (const char* key : {"schedule.chunks", "schedule.csv"}) {
    const TomlValue* found = Find(spec, key);
    const auto* number = found == nullptr ? nullptr : std::get_if<int64_t>(&found->value);
    if (found == nullptr || (number != nullptr && *number == 1)) continue;
    return absl::InvalidArgumentError(fmt::format(
        "{}: '{}' of a campaign, which prices the crossings of one stage a rank; leave it out, "
        "or use `longhaul run`",
        found->where, key));
  }
  return absl::OkStatus();
}

// Files that runs of a campaign would write over each other's.
absl::Status CheckNothingForOneRun(const TomlValue& root, const CampaignSpec& c) {
  for (const PlannedRun& run : c.runs) {
    for (const auto& [key, file, kind, instead] :
         {std::tuple("boundary.capture", &run.spec.boundary.capture, "files", " --capture"),
          std::tuple("model.save", &run.spec.model.save, "weights", "")}) {
      if (file->empty()) continue;
      return absl::InvalidArgumentError(
          fmt::format("{}: '{}' of '{}' is for one run: runs of a campaign would write over each "
                      "other's {}; use `longhaul run{}`",
                      Find(root, "campaign")->where, key, run.arm, kind, instead));
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool IsCampaign(const TomlValue& root) { return Find(root, "campaign") != nullptr; }

absl::StatusOr<CampaignSpec> ReadCampaign(const TomlValue& file, const SpecNames& names) {
  if (!IsCampaign(file)) {
    return absl::InvalidArgumentError(file.where +
                                      ": no [campaign] in this file; use `longhaul run`");
  }
  for (const char* key : {"campaign.tier", "campaign.blocks", "campaign.warmup_share"}) {
    const TomlValue* found = HasProgram(file) ? Find(file, key) : nullptr;
    if (found == nullptr) continue;
    return absl::InvalidArgumentError(
        fmt::format("{}: '{}' is of longhaul's own models; write out the arms of a [program]",
                    found->where, key));
  }
  ASSIGN_OR_RETURN(const TomlValue written_out, WithBlocks(file));
  const TomlValue& root = written_out;
  CampaignSpec c{};
  RETURN_IF_ERROR(ReadCampaignTable(root, c));
  ASSIGN_OR_RETURN(std::vector<Part> parts, Parts(root, c));
  std::vector<RunSpec> specs;
  for (const Part& part : parts) {
    RETURN_IF_ERROR(CheckOneStageARank(part.tree));
    ASSIGN_OR_RETURN(RunSpec spec,
                     Resolve(part.tree, c.seeds.front(), part.budget_fraction * c.d0_tokens,
                             c.warmup_share, names));
    RETURN_IF_ERROR(CheckIdleKeys(part.own, spec));
    specs.push_back(std::move(spec));
  }
  for (const int64_t seed : c.seeds) {
    for (size_t i = 0; i < specs.size(); ++i) {
      const Part& part = parts[i];
      c.runs.push_back({part.arm, part.role, part.budget_fraction, seed, specs[i], part.reference,
                        part.held_out});
      c.runs.back().spec.seed = seed;
    }
  }
  for (const Part& part : parts) {
    if (part.role == Role::kArm) c.arms.push_back(part.arm);
  }
  if (const TomlValue* compute = Find(root, "compute"); c.runs.front().spec.injected()) {
    return absl::InvalidArgumentError(compute->where +
                                      ": 'compute' injects compute, so that runs have no losses, "
                                      "which a campaign compares; use `longhaul run`");
  }
  RETURN_IF_ERROR(CheckNothingForOneRun(root, c));
  RETURN_IF_ERROR(CheckReferences(root, c));
  RETURN_IF_ERROR(CheckInnerSteps(root, c));
  RETURN_IF_ERROR(ChoosePrimary(root, c));
  return c;
}

absl::StatusOr<CampaignSpec> LoadCampaign(const std::string& path,
                                          const std::vector<std::string>& sets,
                                          const SpecNames& names) {
  ASSIGN_OR_RETURN(TomlValue root, ReadTomlFile(path, sets));
  RETURN_IF_ERROR(CountPathsFromFile(path, root));
  return ReadCampaign(root, names);
}

}  // namespace longhaul
