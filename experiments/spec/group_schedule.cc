#include "experiments/spec/group_schedule.h"

#include <algorithm>

#include <fmt/format.h>

#include "experiments/spec/outer_of_spec.h"

namespace longhaul {
namespace {

using GroupsFrom = RunSpec::Outer::GroupsFrom;
constexpr size_t kMostEntries = 1024;

absl::Status Bad(const TomlValue& at, const std::string& what) {
  return absl::InvalidArgumentError(fmt::format("{}: 'outer.schedule' {}", at.where, what));
}

absl::Status ReadEntries(const TomlValue& given, std::vector<GroupsFrom>* entries) {
  constexpr char kWant[] = "want pairs of a step and a number of groups, as [[0, 2], [200, 4]]";
  const auto* list = std::get_if<TomlValue::Array>(&given.value);
  if (list == nullptr || list->empty()) return Bad(given, fmt::format("is no list; {}", kWant));
  if (list->size() > kMostEntries) {
    return Bad(given, fmt::format("has {} entries; want at most {}", list->size(), kMostEntries));
  }
  for (const TomlValue& entry : *list) {
    const auto* pair = std::get_if<TomlValue::Array>(&entry.value);
    const bool two = pair != nullptr && pair->size() == 2;
    const auto* step = two ? std::get_if<int64_t>(&(*pair)[0].value) : nullptr;
    const auto* groups = two ? std::get_if<int64_t>(&(*pair)[1].value) : nullptr;
    if (step == nullptr || groups == nullptr) {
      return Bad(entry, fmt::format("has an entry that is no pair of whole numbers; {}", kWant));
    }
    entries->push_back({.step = *step, .groups = *groups});
  }
  return absl::OkStatus();
}

absl::Status CheckEntry(const TomlValue& at, const RunSpec& spec, const GroupsFrom& entry,
                        const GroupsFrom* before) {
  const RunSpec::Outer& outer = spec.outer;
  const auto bad = [&](const std::string& what) {
    return Bad(at, fmt::format("[{}, {}]: {}", entry.step, entry.groups, what));
  };
  if (before == nullptr && entry.step != 0) return bad("the first step must be 0");
  if (before != nullptr && entry.step <= before->step) {
    return bad(fmt::format("its step is not after the one before it, {}", before->step));
  }
  if (entry.step < 0 || entry.step >= Steps(spec)) {
    return bad(fmt::format("want a step below the run's {}", Steps(spec)));
  }
  if (!OuterPlanOf(spec).EndsRound(entry.step)) {
    return bad(
        fmt::format("groups come and go at outer steps: want a multiple of "
                    "outer.inner_steps = {}",
                    outer.inner_steps));
  }
  if (entry.groups < std::max<int64_t>(1, outer.min_groups) || entry.groups > outer.groups) {
    return bad(fmt::format("want outer.min_groups = {} to outer.groups = {} groups",
                           outer.min_groups, outer.groups));
  }
  if (before != nullptr && entry.groups == before->groups) {
    return bad("as many groups as before: leave the entry out");
  }
  return absl::OkStatus();
}

Fault Planned(FaultKind what, int64_t group, int64_t step, const std::string& written) {
  Fault fault;
  fault.what = what;
  fault.where = {.kind = FaultPlace::Kind::kGroup, .group = group};
  fault.at_step = step;
  fault.planned = true;
  fault.written = written;
  return fault;
}

}  // namespace

absl::Status ReadGroupSchedule(const TomlValue& root, RunSpec& spec) {
  const TomlValue* given = Find(root, "outer.schedule");
  if (given == nullptr) return absl::OkStatus();
  if (spec.outer.on_group_loss != "continue" || spec.outer.inner_steps < 1) {
    return Bad(*given,
               "has groups that come and go; want outer.on_group_loss = \"continue\" and "
               "outer.inner_steps of at least 1");
  }
  std::vector<GroupsFrom> entries;
  if (absl::Status s = ReadEntries(*given, &entries); !s.ok()) return s;
  int64_t most = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    absl::Status s = CheckEntry(*given, spec, entries[i], i == 0 ? nullptr : &entries[i - 1]);
    if (!s.ok()) return s;
    most = std::max(most, entries[i].groups);
  }
  if (most < spec.outer.groups) {
    return Bad(*given, fmt::format("has {} groups at most, and outer.groups is {}: a group that is "
                                   "never there is none",
                                   most, spec.outer.groups));
  }
  spec.outer.schedule = std::move(entries);
  spec.outer.schedule_written = given->where;
  return absl::OkStatus();
}

std::string GroupScheduleText(const RunSpec& spec) {
  std::string text;
  for (const GroupsFrom& entry : spec.outer.schedule) {
    text += fmt::format("{}[{}, {}]", text.empty() ? "" : ", ", entry.step, entry.groups);
  }
  return text.empty() ? "" : fmt::format("schedule = [{}]\n", text);
}

std::vector<Fault> PlannedFaults(const RunSpec& spec) {
  std::vector<Fault> planned;
  const std::vector<GroupsFrom>& entries = spec.outer.schedule;
  const std::string& written = spec.outer.schedule_written;
  for (size_t i = 1; i < entries.size(); ++i) {
    const GroupsFrom &was = entries[i - 1], &is = entries[i];
    for (int64_t g = was.groups; g < is.groups; ++g) {
      planned.push_back(Planned(FaultKind::kJoin, g, is.step, written));
    }
    for (int64_t g = is.groups; g < was.groups; ++g) {
      planned.push_back(Planned(FaultKind::kLeave, g, is.step + 1, written));
    }
  }
  return planned;
}

}  // namespace longhaul
