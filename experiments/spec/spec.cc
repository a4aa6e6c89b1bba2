#include "experiments/spec/spec.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/status_macros.h"
#include "experiments/spec/boundary_cuts.h"
#include "experiments/spec/boundary_policy.h"
#include "experiments/spec/compute_table.h"
#include "experiments/spec/files_table.h"
#include "experiments/spec/idle_keys.h"
#include "experiments/spec/plans_of_spec.h"
#include "experiments/spec/round_plan.h"
#include "experiments/spec/spec_keys.h"
#include "experiments/spec/spec_paths.h"
#include "netem/topology/table_reader.h"
#include "pp_group/device_name.h"

namespace longhaul {
namespace {

// What keys of one table, and of those before it, must be to each other. Called after each key is
// within its own bounds, or after the first error, which stands.
void CheckModel(TableReader& r, const RunSpec& spec) {
  r.Check(spec.model.width % spec.model.heads == 0, "heads",
          fmt::format("= {} does not divide model.width = {}", spec.model.heads, spec.model.width));
  const RunSpec::Model& m = spec.model;
  const bool gpt = m.kind == "gpt", moe = m.kind == "moe";
  const RunSpec::Model none{};  // of another kind's keys
  const auto only = [&](bool of_kind, const char* key, bool as_none, const char* kinds) {
    r.Check(of_kind || as_none, key,
            fmt::format("is of {}, not of model.kind = \"{}\"", kinds, m.kind));
  };
  only(!gpt, "kv_heads", m.kv_heads == none.kv_heads, "llama and moe");
  only(!gpt, "hidden", m.hidden == none.hidden, "llama and moe");
  only(!gpt, "tied_head", m.tied_head == none.tied_head, "llama and moe");
  only(!gpt, "rope_theta", m.rope_theta == none.rope_theta, "llama and moe");
  only(moe, "experts", m.experts == none.experts, "moe");
  only(moe, "capacity_factor", m.capacity_factor == none.capacity_factor, "moe");
  only(moe, "balance_loss", m.balance_loss == none.balance_loss, "moe");
  only(moe, "expert_parallel", m.expert_parallel == none.expert_parallel, "moe");
  r.Check(m.experts % m.expert_parallel == 0, "expert_parallel",
          fmt::format("= {} does not divide model.experts = {}", m.expert_parallel, m.experts));
  r.Check(m.expert_parallel == 1 || m.engine != "cpu", "expert_parallel",
          "needs model.engine = \"aten\" or \"auto\"");
  r.Check(m.kv_heads == 0 || m.heads % m.kv_heads == 0, "kv_heads",
          fmt::format("= {} does not divide model.heads = {}", m.kv_heads, m.heads));
}

void CheckData(TableReader& r, const RunSpec& spec) {
  const std::string& source = spec.data.source;
  const auto check = [&](const char* key, const std::string& value, bool built_in) {
    const bool text = (built_in && value == "headers") || value.starts_with("text:");
    r.Check(text || value.starts_with("tokens:") || value.starts_with("tokens32:"), key,
            fmt::format("is '{}'; known: {}text:PATH, tokens:PATH, tokens32:PATH", Shown(value),
                        built_in ? "headers, " : ""));
    r.Check(!value.ends_with(':'), key, "names no path after the ':'");
    r.Check(!text || spec.model.vocab >= 256, key,
            fmt::format("is bytes and needs model.vocab >= 256, not {}", spec.model.vocab));
  };
  check("source", source, /*built_in=*/true);
  if (r.Has("eval")) check("eval", spec.data.eval, /*built_in=*/false);
}

void CheckTrain(TableReader& r, const RunSpec& spec) {
  const RunSpec::Train& train = spec.train;
  r.Check(train.tokens.has_value() != train.steps.has_value(), train.tokens ? "tokens" : "steps",
          "exactly one of train.tokens and train.steps must be given");
  const RunSpec::Model& model = spec.model;
  const bool plain = train.device == "cpu" && train.dtype == "float32" && !train.recompute;
  r.Check(plain || model.engine != "cpu",
          r.Has("device")  ? "device"
          : r.Has("dtype") ? "dtype"
                           : "recompute",
          "needs model.engine = \"aten\" or \"auto\": the engine \"cpu\" is float32 on the CPU");
  r.Check(train.attention == "math" || train.device != "cpu", "attention",
          "= \"fused\" chooses a GPU's kernel, and train.device = \"cpu\"");
  r.Check(train.batch_rows % train.microbatches == 0, "microbatches",
          fmt::format("= {} does not divide train.batch_rows = {}", train.microbatches,
                      train.batch_rows));
}

// Each stage begins behind the one before it and holds a block at least.
void CheckCuts(TableReader& r, const RunSpec& spec) {
  const std::vector<int64_t>& cuts = spec.schedule.cuts;
  r.Check(static_cast<int64_t>(cuts.size()) == spec.schedule.stages - 1, "cuts",
          fmt::format("has {} values; want {}: where each stage but the first of "
                      "schedule.stages = {} begins",
                      cuts.size(), spec.schedule.stages - 1, spec.schedule.stages));
  int64_t before = 0;
  for (const int64_t cut : cuts) {
    r.Check(cut > before && cut < spec.model.blocks, "cuts",
            fmt::format("= [{}]; want ascending numbers of blocks from 1 to {}",
                        fmt::join(cuts, ", "), spec.model.blocks - 1));
    before = cut;
  }
}

void CheckSchedule(TableReader& r, const RunSpec& spec) {
  const int64_t stages = spec.schedule.stages, microbatches = spec.train.microbatches;
  if (spec.schedule.cuts.empty()) {
    r.Check(spec.model.blocks % stages == 0, "stages",
            fmt::format("= {} does not divide model.blocks = {}", stages, spec.model.blocks));
  } else {
    CheckCuts(r, spec);
  }
  r.Check(stages * microbatches <= kMaxActions, "stages",
          fmt::format("= {} with train.microbatches = {}; want a product of at most {}", stages,
                      microbatches, kMaxActions));
  const RefusedKey refused = RefusedSchedule(spec);
  r.Check(refused.why.empty(), refused.key, refused.why);
}

void CheckNet(TableReader& r, const RunSpec& spec) {
  const bool simulated = spec.simulated_clock();
  r.Check(!simulated || spec.net.transport == "loopback", "clock",
          "= \"simulated\" is of a run in one process: want net.transport = \"loopback\"");
  r.Check(!simulated || spec.net.emulator == "auto", "emulator",
          fmt::format("= \"{}\" asks for a real interface, and net.clock = \"simulated\" has none; "
                      "leave it out",
                      spec.net.emulator));
  r.Check((spec.net.transport != "ucx" && !simulated) || r.Has("profile"), "profile",
          fmt::format("is missing (needed with {})",
                      simulated ? "net.clock = \"simulated\"" : "net.transport = \"ucx\""));
}

void CheckCheckpoint(TableReader& r, const RunSpec& spec) {
  r.Check(spec.checkpoint.from.empty() || spec.model.init.empty(), "from",
          "and model.init: one of them says what the run starts from");
}

constexpr std::pair<std::string_view, void (*)(TableReader&, const RunSpec&)> kTogether[] = {
    {"checkpoint", CheckCheckpoint},
    {"model", CheckModel},
    {"data", CheckData},
    {"train", CheckTrain},
    {"schedule", CheckSchedule},
    {"outer", CheckOuterTable},
    {"net", CheckNet},
};

absl::Status ReadTable(const TomlValue& root, std::string_view table, const SpecNames& names,
                       RunSpec& spec) {
  TableReader r(root, std::string(table));
  for (const SpecKey& key : SpecKeys()) {
    if (key.table == table) ReadKey(r, key, key.required, names, spec);
  }
  if (table.empty()) {
    for (const std::string_view other : SpecTables()) r.Skip(std::string(other));
    r.Skip("compute");
    r.Skip("fault");
    r.Skip("files");
    r.Check(!r.Has("program"), "program",
            "is of a campaign: use `longhaul measure`; for one run, `longhaul launch`");
  }
  if (table == "boundary") {
    r.Skip("cuts");
    r.Skip("policy");
  }
  if (table == "outer") {
    r.Skip("schedule");
    TakeOuterDefaults(r, spec);
  }
  for (const auto& [name, check] : kTogether) {
    if (name == table && r.status().ok()) check(r, spec);
  }
  return r.Finish();
}

// The run's length, which hangs on three tables, and the warm-up, which hangs on the length.
absl::Status CheckLength(const TomlValue& root, RunSpec& spec) {
  TableReader r(root, "train");
  const auto per_step = static_cast<double>(TokensPerStep(spec));
  const char* given = spec.train.steps ? "steps" : "tokens";
  r.Check(static_cast<double>(Steps(spec)) * per_step <= static_cast<double>(kMaxTokens), given,
          fmt::format("makes {} steps of {} tokens; want at most {} tokens in all", Steps(spec),
                      per_step, kMaxTokens));
  if (!r.status().ok()) return r.status();
  if (!spec.train.warmup_steps) {
    const double share = kWarmUpShare * static_cast<double>(Steps(spec));
    spec.train.warmup_steps = static_cast<int64_t>(std::ceil(share));
  }
  r.Within("warmup_steps", *spec.train.warmup_steps, 0, Steps(spec), "steps");
  const int64_t left = Steps(spec) - *spec.train.warmup_steps;
  const int64_t decay = DecaySteps(spec.train, Steps(spec));
  r.Check(decay <= left, "decay_share",
          fmt::format("= {} of {} steps is a decay of {} steps, and {} are left after the warm-up; "
                      "lower it or train.warmup_steps",
                      spec.train.decay_share.value_or(kDecayShare), Steps(spec), decay, left));
  return r.status();
}

// In float32 fused kernels save memory and no time.
void ChooseAttention(const TomlValue& root, RunSpec& spec) {
  if (Find(root, "train.attention") != nullptr) return;
  const bool fused = spec.train.dtype == "bfloat16" && spec.train.device != "cpu";
  spec.train.attention = fused ? "fused" : "math";
}

// Which GPU a rank has is a question of its process.
absl::Status CheckGpuOfRank(const TomlValue& root, const RunSpec& spec) {
  TableReader r(root, "train");
  r.Check(spec.train.device != kGpuOfRank || spec.net.transport != "loopback", "device",
          "= \"cuda:*\" gives each worker's process a GPU; net.transport = \"loopback\" has one "
          "process: want cuda, cuda:N or net.transport = \"ucx\"");
  return r.status();
}

// Experts are spread over the peers of a stage, which hold equal parameters otherwise.
absl::Status CheckExperts(const TomlValue& root, const RunSpec& spec) {
  const int64_t ranks = spec.model.expert_parallel, groups = spec.outer.groups;
  TableReader r(root, "model");
  if (ranks == 1) return r.status();
  const auto check = [&](bool holds, const std::string& want) {
    r.Check(holds, "expert_parallel", fmt::format("= {} {}", ranks, want));
  };
  check(spec.outer.algorithm == "dp",
        "needs outer.algorithm = \"dp\": groups of DiLoCo differ between their meetings");
  check(ranks == groups,
        fmt::format("with outer.groups = {}; want 1 or {}: experts are spread over "
                    "the ranks of a stage in all groups",
                    groups, groups));
  check(!spec.compute, "with a table [compute]: what is slept routes no tokens; want 1");
  check(spec.boundary.capture.empty(), "with boundary.capture; leave one of them out");
  check(spec.net.transport != "loopback" || spec.train.device == "cpu",
        "on a GPU needs net.transport = \"ucx\": groups of one process would wait for each other "
        "on the GPU's one thread");
  return r.status();
}

absl::Status CheckFlush(const TomlValue& root, const RunSpec& spec) {
  TableReader r(root, "schedule");
  const std::string why = RefusedWithoutFlush(spec);
  r.Check(why.empty(), "kind", fmt::format("= \"{}\" {}", spec.schedule.kind, why));
  return r.status();
}

}  // namespace

FaultBounds FaultBoundsOf(const RunSpec& spec) {
  return {.steps = Steps(spec), .groups = spec.outer.groups, .stages = spec.schedule.stages};
}

std::vector<Fault> ScriptOf(const RunSpec& spec) {
  std::vector<Fault> all = spec.faults;  // what is drawn hangs on a fault's place: the plan is last
  for (Fault& planned : PlannedFaults(spec)) all.push_back(std::move(planned));
  return DrawFaults(all, FaultBoundsOf(spec), static_cast<uint64_t>(spec.seed));
}

int64_t TokensPerStep(const RunSpec& spec) {
  if (spec.program) return 1;  // how it takes them is its own
  return spec.train.batch_rows * spec.model.context * spec.outer.groups;
}

int64_t Steps(const RunSpec& spec) {
  if (spec.train.steps) return *spec.train.steps;
  const int64_t per_step = TokensPerStep(spec);
  return std::max<int64_t>(1, (*spec.train.tokens + per_step / 2) / per_step);
}

int64_t TrainTokens(const RunSpec& spec) { return Steps(spec) * TokensPerStep(spec); }

absl::StatusOr<RunSpec> ReadRunSpec(const TomlValue& root, const SpecNames& names) {
  RunSpec spec{};
  RETURN_IF_ERROR(ReadTable(root, "", names, spec));
  for (const std::string_view table : SpecTables()) {
    RETURN_IF_ERROR(ReadTable(root, table, names, spec));
  }
  RETURN_IF_ERROR(ReadBoundaryCuts(root, names, spec));
  RETURN_IF_ERROR(ReadComputeTable(root, spec));
  RETURN_IF_ERROR(CheckLength(root, spec));
  ChooseAttention(root, spec);
  RETURN_IF_ERROR(ReadBoundaryPolicy(root, names, spec));
  RETURN_IF_ERROR(CheckSubspace(root, spec));
  RETURN_IF_ERROR(CheckGpuOfRank(root, spec));
  RETURN_IF_ERROR(CheckExperts(root, spec));
  RETURN_IF_ERROR(CheckFlush(root, spec));
  ASSIGN_OR_RETURN(std::vector<Fault> faults, ReadFaults(root, FaultBoundsOf(spec)));
  spec.faults = std::move(faults);
  RETURN_IF_ERROR(ReadGroupSchedule(root, spec));
  RETURN_IF_ERROR(CheckFaults(spec));
  RETURN_IF_ERROR(ReadFilesTable(root, spec));
  return spec;
}

absl::StatusOr<RunSpec> LoadRunSpec(const std::string& path, const std::vector<std::string>& sets,
                                    const SpecNames& names, IdleKeys idle) {
  ASSIGN_OR_RETURN(TomlValue root, ReadTomlFile(path));
  if (const TomlValue* campaign = Find(root, "campaign")) {
    return absl::InvalidArgumentError(campaign->where +
                                      ": this file is a campaign; use `longhaul measure`");
  }
  for (const std::string& set : sets) {
    RETURN_IF_ERROR(SetByPath(root, set));
  }
  RETURN_IF_ERROR(CountPathsFromFile(path, root));
  absl::StatusOr<RunSpec> spec = ReadRunSpec(root, names);
  if (!spec.ok() || idle == IdleKeys::kTaken) return spec;
  RETURN_IF_ERROR(CheckIdleKeys(root, *spec));
  return spec;
}

absl::StatusOr<RunSpec::Model> LoadModelTable(const std::string& path, const SpecNames& names) {
  ASSIGN_OR_RETURN(TomlValue root, ReadTomlFile(path));
  if (Find(root, "model") == nullptr) {
    return absl::InvalidArgumentError(path + ": has no table [model]");
  }
  RunSpec spec{};
  RETURN_IF_ERROR(ReadTable(root, "model", names, spec));
  return spec.model;
}

}  // namespace longhaul
