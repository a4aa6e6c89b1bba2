#include "experiments/spec/compute_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/spec/table_reader.h"

namespace longhaul {
namespace {

constexpr char kComputeTable[] = "compute";
constexpr double kMostSeconds = 3600;

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

}  // namespace

absl::Status ReadComputeTable(const TomlValue& root, RunSpec& spec) {
  const TomlValue* found = Find(root, kComputeTable);
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
  ReadSeconds(r, *found, "forward_s", spec.schedule.stages, &compute.forward_s);
  ReadSeconds(r, *found, "backward_s", spec.schedule.stages, &compute.backward_s);
  r.Allow("optimizer_s", &compute.optimizer_s);
  if (r.status().ok()) r.Within("optimizer_s", compute.optimizer_s, 0, kMostSeconds, "seconds");
  if (absl::Status s = r.Finish(); !s.ok()) return s;
  if (spec.net.transport == "loopback") {
    return refuse(
        "sleeps for every rank in turn in one process; want net.transport = \"ucx\", where each "
        "has its own");
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

std::string ComputeTableText(const RunSpec& spec) {
  if (!spec.compute) return "";
  return fmt::format("\n[{}]\nforward_s = {}\nbackward_s = {}\noptimizer_s = {}\n", kComputeTable,
                     Numbers(spec.compute->forward_s), Numbers(spec.compute->backward_s),
                     TomlNumber(spec.compute->optimizer_s));
}

}  // namespace longhaul
