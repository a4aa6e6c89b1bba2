#include "experiments/spec/timing_grid.h"

#include <filesystem>
#include <limits>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "experiments/spec/spec_keys.h"
#include "netem/topology/table_reader.h"

namespace longhaul {
namespace {

constexpr size_t kMostTimingRuns = 4096;

struct Axes {
  std::vector<std::string> profiles, codecs, schedules;
  std::vector<int64_t> stages, groups;
};

template <typename T>
void ReadAxis(TableReader& r, const std::string& key, std::vector<T>* values) {
  r.Require(key, values);
  if (!r.status().ok()) return;
  r.Check(!values->empty(), key, "is empty");
  r.Check(std::set<T>(values->begin(), values->end()).size() == values->size(), key,
          "holds a value twice");
}

absl::Status ReadTimingTable(const TomlValue& root, TimingGrid& grid, Axes& axes) {
  TableReader r(root, "timing");
  r.Require("name", &grid.name);
  r.Require("question", &grid.question);
  r.Require("repeats", &grid.repeats);
  if (r.status().ok()) {
    r.Line("name", grid.name, 64);
    r.Check(grid.name.find('/') == std::string::npos, "name", "must not hold a '/'");
    r.Line("question", grid.question, 1024);
    r.Within("repeats", grid.repeats, 1, 1000);
  }
  ReadAxis(r, "profiles", &axes.profiles);
  ReadAxis(r, "codecs", &axes.codecs);
  ReadAxis(r, "schedules", &axes.schedules);
  ReadAxis(r, "stages", &axes.stages);
  ReadAxis(r, "groups", &axes.groups);
  RETURN_IF_ERROR(r.Finish());
  const double runs = static_cast<double>(grid.repeats) *
                      static_cast<double>(axes.profiles.size() * axes.codecs.size()) *
                      static_cast<double>(axes.schedules.size() * axes.stages.size()) *
                      static_cast<double>(axes.groups.size());
  if (runs <= static_cast<double>(kMostTimingRuns)) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{}: 'timing' makes {:.0f} runs; want at most {}",
                                                Find(root, "timing")->where, runs,
                                                kMostTimingRuns));
}

// "forward / backward", or one name for both.
std::pair<std::string, std::string> PairOf(const std::string& text) {
  constexpr std::string_view kBetween = " / ";
  const size_t at = text.find(kBetween);
  if (at == std::string::npos) return {text, text};
  return {text.substr(0, at), text.substr(at + kBetween.size())};
}

std::string ShortProfile(const std::string& profile) {
  return std::filesystem::path(profile).stem().string();
}

struct GridCell {
  const std::string &profile, &codecs, &schedule;
  int64_t stages, groups;
};

absl::StatusOr<PlannedRun> CellOf(const TomlValue& base, const TomlValue& timing,
                                  const GridCell& cell, const SpecNames& names) {
  TomlValue tree = base;
  const auto [forward, backward] = PairOf(cell.codecs);
  for (const auto& [path, value] :
       {std::pair<const char*, TomlValue>("net.profile", {cell.profile, timing.where}),
        {"boundary.forward", {forward, timing.where}},
        {"boundary.backward", {backward, timing.where}},
        {"schedule.kind", {cell.schedule, timing.where}},
        {"schedule.stages", {cell.stages, timing.where}},
        {"outer.groups", {cell.groups, timing.where}},
        {"seed", {int64_t{1}, timing.where}}}) {
    RETURN_IF_ERROR(SetByPath(tree, path, value));
  }
  ASSIGN_OR_RETURN(RunSpec spec, ReadRunSpec(tree, names));
  if (spec.net.transport != "ucx") {
    return absl::InvalidArgumentError(fmt::format(
        "{}: 'timing' is about shaped links; want net.transport = \"ucx\"", timing.where));
  }
  return PlannedRun{
      .arm = fmt::format("{}, {}, {}, {} x {}", ShortProfile(cell.profile),
                         PairName(forward, backward), cell.schedule, cell.groups, cell.stages),
      .role = Role::kSingle,
      .budget_fraction = 1,
      .seed = 1,
      .spec = std::move(spec)};
}

}  // namespace

std::string PairName(const std::string& forward, const std::string& backward) {
  return forward == backward ? forward : forward + " / " + backward;
}

bool IsTimingGrid(const TomlValue& root) { return Find(root, "timing") != nullptr; }

absl::StatusOr<TimingGrid> ReadTimingGrid(const TomlValue& root, const SpecNames& names) {
  TimingGrid grid{};
  Axes axes;
  RETURN_IF_ERROR(ReadTimingTable(root, grid, axes));
  const TomlValue timing = *Find(root, "timing");
  TomlValue base = root;
  Erase(base, "timing");
  if (const TomlValue* given = Find(base, "seed")) {
    return absl::InvalidArgumentError(given->where +
                                      ": 'seed' counts the repeats of a timing grid");
  }
  std::vector<PlannedRun> cells;
  std::set<std::string> seen;
  for (const std::string& profile : axes.profiles) {
    for (const std::string& codecs : axes.codecs) {
      for (const std::string& schedule : axes.schedules) {
        for (const int64_t stages : axes.stages) {
          for (const int64_t groups : axes.groups) {
            ASSIGN_OR_RETURN(
                auto run, CellOf(base, timing, {profile, codecs, schedule, stages, groups}, names));
            if (!seen.insert(run.arm).second) {
              return absl::InvalidArgumentError(
                  fmt::format("{}: two cells are '{}'", timing.where, run.arm));
            }
            cells.push_back(std::move(run));
          }
        }
      }
    }
  }
  for (int64_t repeat = 1; repeat <= grid.repeats; ++repeat) {
    for (const PlannedRun& cell : cells) {
      grid.runs.push_back(cell);
      grid.runs.back().seed = grid.runs.back().spec.seed = repeat;
    }
  }
  return grid;
}

std::string PlanText(const TimingGrid& grid) {
  std::string text = fmt::format("[plan]\nname = {}\nquestion = {}\nrepeats = {}\n",
                                 TomlQuote(grid.name), TomlQuote(grid.question), grid.repeats);
  for (const PlannedRun& run : grid.runs) {
    if (run.seed != 1) break;
    text += fmt::format("\n[[cell]]\nname = {}\nspec = '''\n{}'''\n", TomlQuote(run.arm),
                        ToToml(run.spec));
  }
  return text;
}

}  // namespace longhaul
