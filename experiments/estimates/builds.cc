#include "experiments/estimates/builds.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace longhaul {
namespace {

using Named = std::vector<std::pair<std::string, std::string>>;

std::string FactIn(const RunRow& run, const std::string& key) {
  const auto found = run.facts.find(key);
  return found == run.facts.end() ? "" : found->second;
}

Named MachineOf(const RunRow& run) {
  Named all = BuildOf(run);
  all.emplace_back("CPU", run.cpu);
  all.emplace_back("host", run.host);
  return all;
}

// The arms of each value of one name, in the order met.
std::vector<std::pair<std::string, std::vector<std::string>>> ArmsByValue(
    const std::vector<ArmResult>& arms, size_t name) {
  std::vector<std::pair<std::string, std::vector<std::string>>> values;
  for (const ArmResult& arm : arms) {
    for (const Outcome& outcome : arm.outcomes) {
      const std::string value = MachineOf(outcome.run)[name].second;
      if (value.empty()) continue;
      auto at = std::find_if(values.begin(), values.end(),
                             [&](const auto& known) { return known.first == value; });
      if (at == values.end()) at = values.insert(values.end(), {value, {}});
      if (at->second.empty() || at->second.back() != arm.arm) at->second.push_back(arm.arm);
    }
  }
  return values;
}

const RunRow* AtSeed(const ArmResult& arm, int64_t seed) {
  const auto found = std::find_if(arm.outcomes.begin(), arm.outcomes.end(),
                                  [&](const Outcome& o) { return o.run.seed == seed; });
  return found == arm.outcomes.end() ? nullptr : &found->run;
}

}  // namespace

Named BuildOf(const RunRow& run) {
  return {{"revision", run.git_revision},
          {"LibTorch", run.torch_version},
          {"instruction set of codecs", run.isa},
          {"instruction set of LibTorch", FactIn(run, "cpu_path_torch")}};
}

std::string OtherBuild(const RunRow& run, const RunRow& reference) {
  const Named ours = BuildOf(run), theirs = BuildOf(reference);
  std::vector<std::string> other;
  for (size_t i = 0; i < ours.size(); ++i) {
    const std::string &is = ours[i].second, &was = theirs[i].second;
    if (is.empty() || was.empty() || is == was) continue;
    other.push_back(fmt::format("{} {} against {}", ours[i].first, is, was));
  }
  return fmt::format("{}", fmt::join(other, ", "));
}

std::vector<std::string> BuildLines(const std::vector<ArmResult>& arms) {
  std::vector<std::string> lines;
  const Named names = MachineOf(RunRow());
  for (size_t i = 0; i < names.size(); ++i) {
    const auto values = ArmsByValue(arms, i);
    if (values.size() < 2) continue;
    std::vector<std::string> each;
    for (const auto& [value, of] : values) {
      each.push_back(fmt::format("{} ({})", value, fmt::join(of, ", ")));
    }
    lines.push_back(
        fmt::format("{} of {}: {}", values.size(), names[i].first, fmt::join(each, "; ")));
  }
  return lines;
}

std::string AllRevisions(const std::vector<ArmResult>& arms) {
  std::vector<std::string> revisions;
  for (const auto& [value, of] : ArmsByValue(arms, 0)) revisions.push_back(value);
  return fmt::format("{}", fmt::join(revisions, ", "));
}

void CompareBuilds(CampaignAnalysis& a) {
  a.git_revision = AllRevisions(a.arms);
  a.builds = BuildLines(a.arms);
  for (ArmResult& arm : a.arms) {
    const ArmResult* reference = FindArm(a, arm.reference);
    if (reference == nullptr) continue;
    for (const Outcome& outcome : arm.outcomes) {
      const RunRow* theirs = AtSeed(*reference, outcome.run.seed);
      const std::string other = theirs == nullptr ? "" : OtherBuild(outcome.run, *theirs);
      if (other.empty()) continue;
      arm.other_build = fmt::format("seed {}: {}", outcome.run.seed, other);
      break;
    }
  }
}

}  // namespace longhaul
