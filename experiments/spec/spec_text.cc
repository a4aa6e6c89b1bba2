// RunSpec -> TOML, key by key of the table in spec_keys.cc.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/spec/boundary_cuts.h"
#include "experiments/spec/boundary_policy.h"
#include "experiments/spec/compute_table.h"
#include "experiments/spec/group_schedule.h"
#include "experiments/spec/program_table.h"
#include "experiments/spec/spec.h"
#include "experiments/spec/spec_keys.h"

namespace longhaul {
namespace {

std::string Text(bool v) { return fmt::format("{}", v); }
std::string Text(int64_t v) { return fmt::format("{}", v); }
std::string Text(double v) { return TomlNumber(v); }
// A list that is empty was not given.
std::string Text(const std::vector<int64_t>& v) {
  return v.empty() ? "" : fmt::format("[{}]", fmt::join(v, ", "));
}
// No key takes an empty text, so an empty one was not given.
std::string Text(const std::string& v) { return v.empty() ? "" : TomlQuote(v); }
template <typename T>
std::string Text(const std::optional<T>& v) {
  return v ? Text(*v) : "";
}

}  // namespace

std::string ToToml(const RunSpec& spec) {
  if (spec.program) return ProgramToml(spec);
  RunSpec copy = spec;  // a key's field is found in a spec that may be written
  std::string text;
  std::string_view table;
  for (const SpecKey& key : SpecKeys()) {
    if (key.table != table) {
      if (table == "boundary") text += BoundaryCutsText(spec) + BoundaryPolicyText(spec);
      if (table == "outer") text += GroupScheduleText(spec);
      text += fmt::format("\n[{}]\n", table = key.table);
    }
    const std::string value = std::visit([&](auto get) { return Text(*get(copy)); }, key.field);
    if (!value.empty()) text += fmt::format("{} = {}\n", key.name, value);
  }
  return text + ComputeTableText(spec) + FaultsText(spec.faults);
}

}  // namespace longhaul
