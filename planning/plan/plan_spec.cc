#include "planning/plan/plan_spec.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "absl/strings/str_split.h"
#include "experiments/spec/plans_of_spec.h"
#include "experiments/spec/spec_paths.h"
#include "netem/topology/table_reader.h"
#include "netem/topology/topology_file.h"
#include "pp_group/outer/outer_rules.h"
#include "pp_group/schedule/catalog.h"

namespace longhaul::plan {
namespace {

constexpr char kPlan[] = "plan";
constexpr size_t kMostLength = 4096;

std::string PairOf(const std::string& forward, const std::string& backward) {
  return forward + " / " + backward;
}

// "a / b"; one name alone is of both directions.
std::pair<std::string, std::string> CodecsOfPair(const std::string& pair) {
  const std::vector<std::string> both = absl::StrSplit(pair, " / ");
  return {both.front(), both.back()};
}

std::vector<std::string> SchedulesFor(const RunSpec& run) {
  std::vector<std::string> names;
  for (const std::string& name : ScheduleNames()) {
    const Schedule schedule = *FindSchedule(name);
    const bool takes =
        schedule.least_chunks <= run.schedule.chunks && run.schedule.chunks <= schedule.most_chunks;
    if (takes) names.push_back(name);
  }
  return names;
}

void ReadLists(TableReader& r, const SpecNames& names, PlanSpec& plan) {
  const RunSpec& run = plan.run;
  plan.schedules = SchedulesFor(run);
  plan.codecs = {PairOf(run.boundary.forward, run.boundary.backward)};
  plan.inner_steps = {run.outer.inner_steps};
  plan.algorithms = {run.outer.algorithm};
  if (std::isfinite(run.compute->memory_gb)) {
    plan.memory_bytes = std::llround(run.compute->memory_gb * 1e9);
  }
  r.Allow("schedules", &plan.schedules);
  r.Allow("codecs", &plan.codecs);
  r.Allow("inner_steps", &plan.inner_steps);
  r.Allow("algorithms", &plan.algorithms);
  r.Allow("outer_codecs", &plan.outer_codecs);
  r.Allow("memory_bytes", &plan.memory_bytes);
  const auto all_known = [&](const char* key, const std::vector<std::string>& list,
                             const std::function<absl::Status(std::string_view)>& known) {
    r.Check(!r.Has(key) || !list.empty(), key, "is empty; want at least one");
    for (const std::string& name : list) r.Known(key, name, known);
  };
  std::vector<std::string> codecs;
  for (std::string& pair : plan.codecs) {
    const auto [forward, backward] = CodecsOfPair(pair);
    pair = PairOf(forward, backward);
    codecs.insert(codecs.end(), {forward, backward});
  }
  all_known("schedules", plan.schedules,
            [](std::string_view name) { return FindSchedule(name).status(); });
  all_known("codecs", codecs, names.codec);
  all_known("outer_codecs", plan.outer_codecs, names.codec);
  all_known("algorithms", plan.algorithms,
            [](std::string_view name) { return CheckOuterName(std::string(name)); });
  r.Check(!plan.inner_steps.empty(), "inner_steps", "is empty; want at least one");
  for (const int64_t h : plan.inner_steps) r.Within("inner_steps", h, 0, 10'000, "each");
  if (plan.memory_bytes) r.Check(*plan.memory_bytes > 0, "memory_bytes", "is not above 0");
}

absl::Status ReadPlanTable(const TomlValue& root, const SpecNames& names, PlanSpec& plan) {
  TableReader r(root, kPlan);
  r.Require("target_loss_nat", &plan.target_loss_nat);
  r.Require("curve", &plan.curve);
  r.Require("calibration", &plan.calibrations);
  r.Allow("links", &plan.links);
  if (r.status().ok()) {
    r.Line("curve", plan.curve, kMostLength);
    r.Check(!plan.calibrations.empty(), "calibration", "is empty; want at least one file");
    r.Check(std::isfinite(plan.target_loss_nat) && plan.target_loss_nat > 0, "target_loss_nat",
            "is not above 0 nat");
  }
  ReadLists(r, names, plan);
  return r.Finish();
}

absl::Status Set(TomlValue& root, const std::string& path, auto value) {
  return SetByPath(root, path, TomlValue{std::move(value), "[plan]"});
}

// Seconds of a pass are of a stage: another number of stages shares the same work.
absl::Status ShareCompute(TomlValue& root, const RunSpec& run, int64_t stages) {
  if (run.compute->flops_per_s > 0 || stages == run.stages()) return absl::OkStatus();
  for (const auto& [key, seconds] : {std::pair("compute.forward_s", &run.compute->forward_s),
                                     {"compute.backward_s", &run.compute->backward_s}}) {
    double sum = 0;
    for (const double s : *seconds) sum += s;
    const double each = sum / static_cast<double>(stages);
    if (absl::Status s = Set(root, key, each); !s.ok()) return s;
  }
  return absl::OkStatus();
}

// The tree of one candidate.
absl::StatusOr<TomlValue> TreeOf(const PlanSpec& plan, const std::string& schedule,
                                 const std::string& pair, const std::string& algorithm,
                                 int64_t inner_steps, const std::string& outer_codec) {
  TomlValue root = plan.root;
  const RunSpec& run = plan.run;
  const Schedule found = *FindSchedule(schedule);
  const int64_t chunks =
      std::clamp<int64_t>(run.schedule.chunks, found.least_chunks, found.most_chunks);
  const int64_t stages = run.ranks() * chunks;
  const auto [forward, backward] = CodecsOfPair(pair);
  if (schedule != run.schedule.kind) {
    for (const char* key : {"schedule.depth", "schedule.csv"}) Erase(root, key);
  }
  if (stages != run.stages()) Erase(root, "schedule.cuts");
  if (algorithm != run.outer.algorithm) {
    for (const char* key : {"lr", "momentum", "fragments", "overlap_steps", "mix", "mean",
                            "cluster_groups", "global_every", "global_codec", "warmup_steps"}) {
      Erase(root, std::string("outer.") + key);
    }
  }
  for (absl::Status s :
       {Set(root, "schedule.kind", schedule), Set(root, "schedule.chunks", chunks),
        Set(root, "schedule.stages", stages), Set(root, "boundary.forward", forward),
        Set(root, "boundary.backward", backward), ShareCompute(root, run, stages)}) {
    if (!s.ok()) return s;
  }
  if (run.outer.groups == 1 && inner_steps == 0) return root;
  for (absl::Status s :
       {Set(root, "outer.algorithm", algorithm), Set(root, "outer.inner_steps", inner_steps),
        Set(root, "outer.codec", outer_codec)}) {
    if (!s.ok()) return s;
  }
  return root;
}

// Files that the spec names count from its folder; those of an override, from the working folder.
// NotFound: the first that is not there, by its key.
absl::Status CountFromFolder(const std::string& path, TomlValue& root) {
  for (const std::string key : {"plan.curve", "plan.calibration", "plan.links"}) {
    const TomlValue* found = Find(root, key);
    if (found == nullptr) continue;
    TomlValue copy = *found;
    auto* list = std::get_if<TomlValue::Array>(&copy.value);
    for (TomlValue& value : list == nullptr ? std::span(&copy, 1) : std::span(*list)) {
      auto* name = std::get_if<std::string>(&value.value);
      if (name == nullptr) continue;
      if (key == "plan.links" && !name->ends_with(".json") && !IsTopologyFile(*name)) continue;
      const bool of_spec = value.where.starts_with(path + ":");
      std::error_code error;
      const std::string file = of_spec ? FromFolderOf(path, *name) : *name;
      if (!std::filesystem::exists(file, error)) {
        return absl::NotFoundError(
            fmt::format("{}: '{}' is '{}', and there is no file {}: names {}", value.where, key,
                        Shown(*name), std::filesystem::absolute(file, error).string(),
                        of_spec ? "in [plan] count from the spec's folder"
                                : "on the command line count from the working folder"));
      }
      *name = file;
    }
    if (absl::Status s = SetByPath(root, key, std::move(copy)); !s.ok()) return s;
  }
  return absl::OkStatus();
}

std::string WhatOf(const std::string& schedule, const std::string& pair,
                   const std::string& algorithm, int64_t inner_steps,
                   const std::string& outer_codec) {
  return fmt::format("{}, {}, {} with H = {} and {}", schedule, pair, algorithm, inner_steps,
                     outer_codec);
}

std::vector<std::string> OuterCodecsFor(const PlanSpec& plan, const std::string& algorithm) {
  if (!plan.outer_codecs.empty()) return plan.outer_codecs;
  const OuterRule& rule = *FindOuterRule(algorithm);
  if (algorithm != plan.run.outer.algorithm && !rule.codec.empty())
    return {std::string(rule.codec)};
  return {plan.run.outer.codec};
}

}  // namespace

absl::StatusOr<PlanSpec> ReadPlanSpec(TomlValue root, const SpecNames& names) {
  if (const TomlValue* campaign = Find(root, "campaign")) {
    return absl::InvalidArgumentError(campaign->where + ": this file is a campaign, not a run");
  }
  const TomlValue* table = Find(root, kPlan);
  if (table == nullptr) {
    return absl::InvalidArgumentError(
        root.where + ": no table [plan]; want target_loss_nat, curve and calibration in one");
  }
  const TomlValue* compute = Find(root, "compute");
  if (compute == nullptr || !std::holds_alternative<TomlValue::Table>(compute->value)) {
    return absl::InvalidArgumentError(
        root.where +
        ": no table [compute], the machine that a plan is for; want flops_per_s and mfu, or "
        "forward_s and backward_s");
  }
  PlanSpec plan;
  plan.root = root;
  Erase(plan.root, kPlan);
  const TomlValue* links = Find(root, "plan.links");
  const auto* named = links == nullptr ? nullptr : std::get_if<std::string>(&links->value);
  // A matrix is no profile: the spec's reader is given a name that it knows.
  if (named != nullptr) {
    const std::string profile = named->ends_with(".json") ? "regional" : *named;
    if (absl::Status s = Set(plan.root, "net.profile", profile); !s.ok()) return s;
  }
  for (absl::Status s : {Set(plan.root, "net.clock", std::string("simulated")),
                         Set(plan.root, "net.transport", std::string("loopback"))}) {
    if (!s.ok()) return s;
  }
  absl::StatusOr<RunSpec> run = ReadRunSpec(plan.root, names);
  if (!run.ok()) return run.status();
  plan.run = *std::move(run);
  if (!plan.run.compute->group_speed.empty()) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: 'compute.group_speed' is of groups, and a plan puts groups on nodes; want nodes that "
        "are alike",
        Find(root, "compute.group_speed")->where));
  }
  if (plan.run.outer.on_group_loss == "continue") {
    return absl::InvalidArgumentError(
        Find(root, "outer.on_group_loss")->where +
        ": 'outer.on_group_loss' = \"continue\": a plan's groups neither come nor go; want \"end\"");
  }
  if (absl::Status s = ReadPlanTable(root, names, plan); !s.ok()) return s;
  if (plan.links.empty()) plan.links = plan.run.net.profile;
  return plan;
}

absl::StatusOr<PlanSpec> ReadPlanSpec(const std::string& path, const std::vector<std::string>& sets,
                                      const SpecNames& names) {
  absl::StatusOr<TomlValue> root = ReadTomlFile(path);
  if (!root.ok()) return root.status();
  for (const std::string& set : sets) {
    if (absl::Status s = SetByPath(*root, set); !s.ok()) return s;
  }
  for (absl::Status s : {CountFromFolder(path, *root), CountPathsFromFile(path, *root)}) {
    if (!s.ok()) return s;
  }
  return ReadPlanSpec(*std::move(root), names);
}

absl::StatusOr<std::vector<Candidate>> CandidatesOf(const PlanSpec& plan, const SpecNames& names,
                                                    std::vector<LeftOut>* left_out) {
  std::vector<Candidate> out;
  std::set<std::string> seen;
  for (const std::string& schedule : plan.schedules) {
    for (const std::string& pair : plan.codecs) {
      for (const std::string& algorithm : plan.algorithms) {
        for (const int64_t asked : plan.inner_steps) {
          // Gradients cross in every step, whatever H the others are tried with.
          const int64_t h = ExchangesGradients(algorithm) ? 0 : asked;
          for (const std::string& codec : OuterCodecsFor(plan, algorithm)) {
            // One group that meets nobody has no outer step to choose.
            const bool alone = plan.run.outer.groups == 1 && h == 0;
            const std::string what = alone ? fmt::format("{}, {}", schedule, pair)
                                           : WhatOf(schedule, pair, algorithm, h, codec);
            if (!seen.insert(what).second) continue;
            const auto tree = TreeOf(plan, schedule, pair, algorithm, h, codec);
            if (!tree.ok()) return tree.status();
            absl::StatusOr<RunSpec> spec = ReadRunSpec(*tree, names);
            absl::Status why = spec.status();
            if (why.ok()) why = PipelineOf(*spec).status();
            if (!why.ok()) {
              left_out->push_back({what, std::string(why.message())});
              continue;
            }
            const bool meets = spec->outer.groups > 1 || h > 0;
            out.push_back({*std::move(spec), pair, meets ? codec : ""});
          }
        }
      }
    }
  }
  if (out.empty()) {
    return absl::InvalidArgumentError(fmt::format("[plan] leaves nothing to choose among; {}: {}",
                                                  left_out->front().what, left_out->front().why));
  }
  if (out.size() > kMostCandidates) {
    return absl::InvalidArgumentError(fmt::format(
        "[plan] has {} choices; want at most {}: shorter lists", out.size(), kMostCandidates));
  }
  return out;
}

}  // namespace longhaul::plan
