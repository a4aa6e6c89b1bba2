#include "experiments/spec/compute_table.h"

#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/status_macros.h"
#include "experiments/spec/gpu_profiles.h"
#include "netem/topology/table_reader.h"

namespace longhaul {
namespace {

constexpr char kComputeTable[] = "compute";
constexpr double kMostSeconds = 3600, kMostRestartSeconds = 1e6;

// One number for all stages, or a list with one for each.
void ReadSeconds(TableReader& r, const TomlValue& table, const std::string& key, int64_t stages,
                 std::vector<double>* seconds) {
  const TomlValue* found = Find(table, key);
  if (found != nullptr && std::holds_alternative<TomlValue::Array>(found->value)) {
    r.Require(key, seconds);
    r.Check(static_cast<int64_t>(seconds->size()) == stages, key,
            fmt::format("has {} values; want one, or one for each of schedule.stages = {}",
                        seconds->size(), stages));
  } else {
    double one = 0;
    r.Require(key, &one);
    seconds->assign(static_cast<size_t>(stages), one);
  }
  if (!r.status().ok()) return;
  for (const double value : *seconds) r.Within(key, value, 0, kMostSeconds, "seconds");
}

std::string Numbers(const std::vector<double>& seconds) {
  std::vector<std::string> text;
  for (const double value : seconds) text.push_back(TomlNumber(value));
  return fmt::format("[{}]", fmt::join(text, ", "));
}

// What a simulated clock does not know yet.
absl::Status CheckClocked(const TomlValue& root, const RunSpec& spec) {
  const TomlValue* compute = Find(root, kComputeTable);
  const auto refuse = [&](std::string_view what) {
    return absl::InvalidArgumentError(
        fmt::format("{}: 'net.clock' = \"simulated\" {}", Find(root, "net.clock")->where, what));
  };
  if (compute == nullptr || std::holds_alternative<std::string>(compute->value)) {
    return refuse("needs a table [compute]: forward_s and backward_s, or flops_per_s and mfu");
  }
  if (spec.checkpoint.every_steps > 0 || !spec.checkpoint.from.empty()) {
    return refuse(
        "begins at 0 and is in no checkpoint; want checkpoint.every_steps = 0 and no from");
  }
  if (spec.model.expert_parallel > 1) {
    return refuse("knows no rows that routers choose; want model.expert_parallel = 1");
  }
  return absl::OkStatus();
}

// "profile", a device by name: its flops_per_s and, unless the table says it, memory_gb. What is kept of
// it, in records and hashes, are these figures.
void TakeProfile(TableReader& r, RunSpec::Compute* compute) {
  const auto name = r.Get<std::string>("profile");
  if (!name) return;
  r.Check(!r.Has("flops_per_s"), "profile", "and flops_per_s: one of them says what it computes");
  const absl::StatusOr<GpuProfile> found = FindGpuProfile(*name);
  if (!found.ok())
    return r.Fail("profile", std::string("names an ") + std::string(found.status().message()));
  compute->flops_per_s = found->flops_per_s;
  compute->memory_gb = found->memory_gb;
}

void ReadMachine(TableReader& r, const TomlValue& table, RunSpec& spec, RunSpec::Compute* compute) {
  TakeProfile(r, compute);
  r.Allow("flops_per_s", &compute->flops_per_s);
  r.Allow("mfu", &compute->mfu);
  r.Allow("group_speed", &compute->group_speed);
  r.Allow("memory_gb", &compute->memory_gb);
  r.Allow("restart_s", &compute->restart_s);
  if (!r.status().ok()) return;
  for (const char* key :
       {"profile", "flops_per_s", "mfu", "group_speed", "memory_gb", "restart_s"}) {
    r.Check(!r.Has(key) || spec.simulated_clock(), key, "is of net.clock = \"simulated\" alone");
  }
  const char* peak = r.Has("profile") ? "profile" : "flops_per_s";
  const bool flops = r.Has(peak);
  r.Check(flops || r.Has("forward_s") || !spec.simulated_clock(), "flops_per_s",
          "is missing, and so is forward_s: a machine is flops_per_s and mfu, or forward_s and "
          "backward_s");
  const bool seconds = r.Has("forward_s") || r.Has("backward_s");
  r.Check(!flops || !seconds, peak,
          "and forward_s or backward_s: one of them says how long a pass takes");
  r.Check(flops == r.Has("mfu"), flops ? "mfu" : peak,
          fmt::format("is missing: {} and mfu are given together", peak));
  if (flops) r.Within("flops_per_s", compute->flops_per_s, 1, 1e21, "operations a second");
  if (flops) r.Within("mfu", compute->mfu, 1e-6, 1, fmt::format("of {}", peak));
  if (r.Has("memory_gb")) r.Within("memory_gb", compute->memory_gb, 1e-3, 1e9, "GB");
  r.Within("restart_s", compute->restart_s, 0, kMostRestartSeconds, "s");
  r.Check(!r.Has("restart_s") || spec.outer.on_group_loss == "continue", "restart_s",
          "is of groups that are started anew: want outer.on_group_loss = \"continue\"");
  const auto groups = static_cast<int64_t>(compute->group_speed.size());
  r.Check(groups == 0 || groups == spec.outer.groups, "group_speed",
          fmt::format("has {} values; want one for each of outer.groups = {}", groups,
                      spec.outer.groups));
  for (const double speed : compute->group_speed) r.Within("group_speed", speed, 1e-3, 1e3, "each");
  if (flops && !seconds) return;
  ReadSeconds(r, table, "forward_s", spec.schedule.stages, &compute->forward_s);
  ReadSeconds(r, table, "backward_s", spec.schedule.stages, &compute->backward_s);
}

}  // namespace

absl::Status ReadComputeTable(const TomlValue& root, RunSpec& spec) {
  const TomlValue* found = Find(root, kComputeTable);
  if (spec.simulated_clock()) {
    RETURN_IF_ERROR(CheckClocked(root, spec));
  }
  if (found == nullptr) return absl::OkStatus();
  const auto refuse = [&](const std::string& why) {
    return absl::InvalidArgumentError(fmt::format("{}: '{}' {}", found->where, kComputeTable, why));
  };
  if (const auto* text = std::get_if<std::string>(&found->value)) {
    if (*text == "measured") return absl::OkStatus();
    return refuse(fmt::format("is '{}'; want \"measured\" or a table of seconds", Shown(*text)));
  }
  TableReader r(root, kComputeTable);
  if (!r.status().ok()) return r.status();
  RunSpec::Compute compute;
  ReadMachine(r, *found, spec, &compute);
  r.Allow("optimizer_s", &compute.optimizer_s);
  if (r.status().ok()) r.Within("optimizer_s", compute.optimizer_s, 0, kMostSeconds, "seconds");
  RETURN_IF_ERROR(r.Finish());
  if (spec.simulated_clock()) {
    spec.compute = std::move(compute);
    return absl::OkStatus();
  }
  if (spec.net.transport == "loopback") {
    return refuse(
        "sleeps for every rank in turn in one process; want net.transport = \"ucx\", where each "
        "has its own, or net.clock = \"simulated\"");
  }
  if (spec.checkpoint.every_steps > 0) {
    return refuse("trains nothing that checkpoint.every_steps could keep; want 0");
  }
  if (!spec.model.save.empty()) return refuse("trains no weights that model.save could keep");
  if (!spec.boundary.capture.empty()) {
    return refuse("sends no tensors of a training that boundary.capture could keep");
  }
  spec.compute = std::move(compute);
  return absl::OkStatus();
}

SpecLines ComputeTableLines(const RunSpec& spec) {
  if (!spec.compute) return {};
  const RunSpec::Compute& c = *spec.compute;
  SpecLines lines;
  const auto line = [&lines](bool given, const char* key, std::string value) {
    if (given) lines.push_back({kComputeTable, key, std::move(value)});
  };
  const bool flops = c.flops_per_s > 0;
  line(flops, "flops_per_s", TomlNumber(c.flops_per_s));
  line(flops, "mfu", TomlNumber(c.mfu));
  line(!flops, "forward_s", Numbers(c.forward_s));
  line(!flops, "backward_s", Numbers(c.backward_s));
  line(true, "optimizer_s", TomlNumber(c.optimizer_s));
  line(!c.group_speed.empty(), "group_speed", Numbers(c.group_speed));
  line(std::isfinite(c.memory_gb), "memory_gb", TomlNumber(c.memory_gb));
  line(c.restart_s != RunSpec::Compute::kRestartSeconds, "restart_s", TomlNumber(c.restart_s));
  return lines;
}

}  // namespace longhaul
