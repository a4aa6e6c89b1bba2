#include "experiments/estimates/comparability.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/record/file_contents.h"

namespace longhaul {
namespace {

using Named = std::vector<std::pair<std::string, std::string>>;

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

// What says which tokens are predicted from which, beside the text itself. Of a vocabulary the loss
// is a logarithm over its size.
constexpr std::string_view kWindows[] = {"eval.rows", "model.context", "model.vocab"};

// The tokens that were held out, as a worker of the arm's runs hashed them; "": nobody told.
std::string HeldOutHash(const ArmResult& arm) {
  for (const Outcome& outcome : arm.outcomes) {
    const std::string hash = FactOf(outcome.run.facts, "eval_hash");
    if (!hash.empty()) return hash;
  }
  return "";
}

// What an arm was to be evaluated on, and what was.
struct Evaluated {
  const std::string& spec_toml;
  std::string held_out_hash;  // "": nobody told
  // Whether it holds out what a source of its own says.
  bool HasOwnText() const { return spec_toml.find("\neval = ") != std::string::npos; }
};

std::string OtherText(const Evaluated& reference, const Evaluated& arm) {
  std::vector<SpecChange> changes = ChangesBesideCodecs(reference.spec_toml, arm.spec_toml);
  const std::string &was = reference.held_out_hash, &is = arm.held_out_hash;
  const bool known = !was.empty() && !is.empty();
  const bool own_text = reference.HasOwnText() && arm.HasOwnText();
  std::erase_if(changes, [&](const SpecChange& change) {
    if (change.key == "data.source") return known ? was == is : own_text;
    if (change.key == "data.eval") return known && was == is;
    return std::find(std::begin(kWindows), std::end(kWindows), change.key) == std::end(kWindows);
  });
  return ToString(changes);
}

}  // namespace

Named BuildOf(const RunRow& run) {
  return {{"revision", run.git_revision},
          {"LibTorch", run.torch_version},
          {"instruction set of codecs", run.isa},
          {"instruction set of LibTorch", FactOf(run.facts, "cpu_path_torch")}};
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

absl::Status RefuseMixed(const Record& record, CampaignAnalysis& a) {
  const absl::StatusOr<std::vector<RunRow>> runs = record.Runs(a.experiment.id);
  if (!runs.ok()) return runs.status();
  a.mixed_files = MixedContents(*runs);
  if (a.mixed_files.empty()) return absl::OkStatus();
  a.curve_note = "runs of other files are not mixed: " + a.mixed_files;
  for (ArmResult& arm : a.arms) arm.note = a.curve_note;
  return absl::OkStatus();
}

std::string OtherText(const ArmResult& reference, const ArmResult& arm) {
  return OtherText({reference.outcomes.front().run.spec_toml, HeldOutHash(reference)},
                   {arm.outcomes.front().run.spec_toml, HeldOutHash(arm)});
}

std::vector<std::string> OtherTextAdvice(const CampaignSpec& campaign) {
  std::vector<std::string> lines;
  const auto d0 = std::find_if(campaign.runs.begin(), campaign.runs.end(),
                               [](const PlannedRun& run) { return run.arm == kD0Reference; });
  for (const PlannedRun& run : campaign.runs) {
    if (run.seed != campaign.seeds.front()) break;  // the others differ in the seed alone
    if (run.role != Role::kArm || d0 == campaign.runs.end()) continue;
    const std::string base = ToToml(d0->spec), own = ToToml(run.spec);
    const std::string other = OtherText({base, ""}, {own, ""});
    if (other.empty()) continue;
    const bool data = other.find("data.") != std::string::npos;
    lines.push_back(
        fmt::format("arm '{}' will have no eta{}: losses on different texts have no difference: {}",
                    run.arm, data ? ", unless both hold out the same tokens" : "", other));
  }
  return lines;
}

}  // namespace longhaul
