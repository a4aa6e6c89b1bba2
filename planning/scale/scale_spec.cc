#include "planning/scale/scale_spec.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "experiments/spec/plans_of_spec.h"
#include "experiments/spec/spec_keys.h"
#include "experiments/spec/spec_paths.h"
#include "netem/topology/table_reader.h"
#include "netem/topology/topology_file.h"

namespace longhaul::scale {
namespace {

// nullopt: a topology file, or no profile at all.
std::optional<BoundaryLink> LinkOf(const std::string& profile, const RunSpec& run) {
  if (IsTopologyFile(profile)) return std::nullopt;
  const absl::StatusOr<Topology> pair = MeshNamed(profile, 2);
  if (!pair.ok()) return std::nullopt;
  BoundaryLink link = longhaul::LinkOf(*pair, pair->paths.front(), run);
  link.loss = {};  // groups are alike, which draws would not be
  return link;
}

absl::Status ReadScaleTable(const TomlValue& root, const SpecNames& names, ScaleSpec& spec) {
  TableReader r(root, "scale");
  std::string exchange = "shared", between;
  r.Allow("restart_s", &spec.restart_s);
  r.Allow("round_deadline_s", &spec.round_deadline_s);
  r.Allow("exchange", &exchange);
  r.Allow("between", &between);
  r.Allow("mtbf_h", &spec.mtbf_h);
  if (r.status().ok()) {
    r.Within("restart_s", spec.restart_s, 0.0, 1e6, "s");
    r.Check(spec.round_deadline_s > 0, "round_deadline_s",
            fmt::format("is {}; want more than 0 s", spec.round_deadline_s));
    r.OneOf("exchange", exchange, {"shared", "paths"});
    r.Within("mtbf_h", spec.mtbf_h, 0.0, 1e9, "h");
  }
  if (r.status().ok() && !between.empty()) {
    r.Known("between", between, names.profile);
    const auto link = LinkOf(between, spec.run);
    r.Check(link.has_value(), "between", "is a topology file; want a profile's name");
    if (link) spec.between = *link;
  }
  if (exchange == "paths") spec.exchange = ScaleSpec::Exchange::kPaths;
  return r.Finish();
}

// Takes outer.groups out of the tree's hands where it is more than machines could start: the run's
// own reader would refuse it.
absl::StatusOr<std::optional<int64_t>> TakeGroups(TomlValue& root) {
  const TomlValue* found = Find(root, "outer.groups");
  const TomlValue* stages = Find(root, "schedule.stages");
  const auto* groups = found == nullptr ? nullptr : std::get_if<int64_t>(&found->value);
  const auto* s = stages == nullptr ? nullptr : std::get_if<int64_t>(&stages->value);
  if (groups == nullptr || s == nullptr || *s < 1 || *s > kMostStages || *groups < 2) {
    return std::optional<int64_t>();
  }
  if (*groups > kMostGroups) {
    return absl::InvalidArgumentError(
        fmt::format("{}: 'outer.groups' is {}; want at most {} in simulated time", found->where,
                    *groups, kMostGroups));
  }
  const int64_t wanted = *groups;
  const int64_t most = std::clamp<int64_t>(kMaxRanks / *s, 1, wanted);
  if (most == wanted) return std::optional<int64_t>();
  TomlValue fits = *found;
  fits.value = most;
  if (absl::Status status = SetByPath(root, "outer.groups", std::move(fits)); !status.ok()) {
    return status;
  }
  return std::optional<int64_t>(wanted);
}

absl::Status CheckRun(const RunSpec& run) {
  if (!run.compute) {
    return absl::InvalidArgumentError(
        "simulated time needs a table [compute]: forward_s, backward_s, optimizer_s");
  }
  if (!OuterPlanOf(run).meets()) {
    return absl::InvalidArgumentError(
        "'outer.inner_steps' is 0: there are no rounds; want at least 1");
  }
  if (!WholeRounds(run.outer)) {
    return absl::InvalidArgumentError(fmt::format(
        "'outer.algorithm' is '{}': simulated rounds end with an exchange of everything "
        "between all groups, which nothing overlaps; want \"diloco\"",
        run.outer.algorithm));
  }
  if (run.schedule.chunks > 1) {
    return absl::InvalidArgumentError(
        fmt::format("'schedule.chunks' is {}: simulated time knows one stage a rank; want 1",
                    run.schedule.chunks));
  }
  return PipelineOf(run).status();
}

}  // namespace

absl::StatusOr<ScaleSpec> ReadScaleSpec(TomlValue root, const SpecNames& names) {
  if (const TomlValue* campaign = Find(root, "campaign")) {
    return absl::InvalidArgumentError(campaign->where + ": this file is a campaign, not a run");
  }
  const absl::StatusOr<std::optional<int64_t>> groups = TakeGroups(root);
  if (!groups.ok()) return groups.status();
  TomlValue plain = root;
  Erase(plain, "scale");
  Erase(plain, "fault");
  absl::StatusOr<RunSpec> run = ReadRunSpec(plain, names);
  if (!run.ok()) return run.status();
  if (*groups && !run->outer.schedule.empty()) {
    return absl::InvalidArgumentError(run->outer.schedule_written +
                                      ": 'outer.schedule' is of groups that machines could "
                                      "start; want fewer outer.groups");
  }
  if (*groups) run->outer.groups = **groups;
  if (absl::Status status = CheckRun(*run); !status.ok()) return status;
  const auto inside = LinkOf(run->net.profile, *run);
  if (!inside) {
    return absl::InvalidArgumentError(
        fmt::format("'net.profile' is '{}'; want a profile's name for the links inside of a group, "
                    "and scale.between for those between groups",
                    run->net.profile));
  }
  ScaleSpec spec{.run = *std::move(run), .faults = {}, .inside = *inside, .between = *inside};
  spec.restart_s = spec.run.compute->restart_s;
  if (absl::Status status = ReadScaleTable(root, names, spec); !status.ok()) return status;
  absl::StatusOr<std::vector<Fault>> faults =
      ReadFaults(root, {.steps = Steps(spec.run),
                        .groups = spec.run.outer.groups,
                        .stages = spec.run.schedule.stages});
  if (!faults.ok()) return faults.status();
  spec.faults = *std::move(faults);
  return spec;
}

absl::StatusOr<ScaleSpec> ReadScaleSpec(const std::string& path,
                                        const std::vector<std::string>& sets,
                                        const SpecNames& names) {
  absl::StatusOr<TomlValue> root = ReadTomlFile(path);
  if (!root.ok()) return root.status();
  for (const std::string& set : sets) {
    if (absl::Status status = SetByPath(*root, set); !status.ok()) return status;
  }
  if (absl::Status status = CountPathsFromFile(path, *root); !status.ok()) return status;
  return ReadScaleSpec(*std::move(root), names);
}

}  // namespace longhaul::scale
