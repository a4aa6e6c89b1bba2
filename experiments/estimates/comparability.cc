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

// Whether both hold out what a source of its own says, which is no change then.
bool HasOwnText(const ArmResult& arm) {
  return arm.outcomes.front().run.spec_toml.find("\neval = ") != std::string::npos;
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
  std::vector<SpecChange> changes = ChangesBesideCodecs(reference.outcomes.front().run.spec_toml,
                                                        arm.outcomes.front().run.spec_toml);
  const std::string was = HeldOutHash(reference), is = HeldOutHash(arm);
  const bool known = !was.empty() && !is.empty();
  const bool own_text = HasOwnText(reference) && HasOwnText(arm);
  std::erase_if(changes, [&](const SpecChange& change) {
    if (change.key == "data.source") return known ? was == is : own_text;
    if (change.key == "data.eval") return known && was == is;
    return std::find(std::begin(kWindows), std::end(kWindows), change.key) == std::end(kWindows);
  });
  return ToString(changes);
}

}  // namespace longhaul
