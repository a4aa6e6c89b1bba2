#include "experiments/estimates/comparability.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "experiments/record/run_contents.h"

namespace longhaul {
namespace {

// What says which tokens are predicted from which, beside the text itself. Of a vocabulary the loss
// is a logarithm over its size.
constexpr std::string_view kWindows[] = {"eval.rows", "model.context", "model.vocab"};

// The tokens that were held out, as a worker of the arm's runs hashed them; "": nobody told.
std::string HeldOutHash(const ArmResult& arm) {
  for (const Outcome& outcome : arm.outcomes) {
    const auto found = outcome.run.facts.find("eval_hash");
    if (found != outcome.run.facts.end()) return found->second;
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
