// The plan of a campaign as text, and what is read back from it.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/status_macros.h"
#include "experiments/spec/campaign.h"
#include "experiments/spec/spec_changes.h"

namespace longhaul {

std::string PlanText(const CampaignSpec& c, const std::map<std::string, std::string>& frozen) {
  std::string text = fmt::format(
      "[plan]\nname = {}\nquestion = {}\nseeds = [{}]\nd0_tokens = {}\nbudgets = [{}]\n"
      "control_budgets = [{}]\nprimary = {}\n"
      "primary_contrast = \"ln eta of the primary arm at D0, codec off at evaluation, two-sided "
      "5 %\"\nexclusions = \"none: a diverged or failed run stays in the table and its arm gets "
      "no mean\"\n",
      TomlQuote(c.name), TomlQuote(c.question), fmt::join(c.seeds, ", "), c.d0_tokens,
      fmt::join(c.budgets, ", "), fmt::join(c.control_budgets, ", "), TomlQuote(c.primary));
  if (!c.tier.empty()) {
    text += fmt::format("tier = {}\nblocks = [\"{}\"]\n", TomlQuote(c.tier),
                        fmt::join(c.blocks, "\", \""));
  }
  if (c.target_loss_nat)
    text += fmt::format("target_loss_nat = {}\n", TomlNumber(*c.target_loss_nat));
  text += "\n[frozen]\n";
  for (const auto& [key, value] : frozen) {
    text += fmt::format("{} = {}\n", TomlQuote(key), TomlQuote(value));
  }
  // One seed shows every arm; the other seeds differ in the seed alone.
  for (const PlannedRun& run : c.runs) {
    if (run.seed != c.seeds.front()) break;
    const bool named = run.role == Role::kArm && run.reference != kD0Reference;
    text += fmt::format(
        "\n[[arm]]\nname = {}\nrole = {}\n{}{}budget_fraction = {}\nspec = '''\n{}'''\n",
        TomlQuote(run.arm), TomlQuote(ToString(run.role)),
        named ? fmt::format("reference = {}\n", TomlQuote(run.reference)) : "",
        run.held_out ? "held_out = true\n" : "", TomlNumber(run.budget_fraction), ToToml(run.spec));
  }
  return text;
}

namespace {

// The [[arm]] tables of a plan.
absl::StatusOr<TomlValue::Array> PlannedArms(const std::string& plan_text) {
  absl::StatusOr<TomlValue> plan = ParseToml(plan_text, "plan");
  if (!plan.ok()) return plan.status();
  const auto* list = FindAs<TomlValue::Array>(*plan, "arm");
  return list == nullptr ? TomlValue::Array() : *list;
}

}  // namespace

absl::StatusOr<std::map<std::string, std::string>> PlannedReferences(const std::string& plan_text) {
  ASSIGN_OR_RETURN(const TomlValue::Array arms, PlannedArms(plan_text));
  std::map<std::string, std::string> references;
  for (const TomlValue& arm : arms) {
    const std::string *name = FindAs<std::string>(arm, "name"),
                      *reference = FindAs<std::string>(arm, "reference");
    if (name != nullptr && reference != nullptr) references[*name] = *reference;
  }
  return references;
}

absl::StatusOr<std::set<std::string>> PlannedHeldOut(const std::string& plan_text) {
  ASSIGN_OR_RETURN(const TomlValue::Array arms, PlannedArms(plan_text));
  std::set<std::string> held_out;
  for (const TomlValue& arm : arms) {
    const auto* name = FindAs<std::string>(arm, "name");
    if (name != nullptr && Find(arm, "held_out") != nullptr) held_out.insert(*name);
  }
  return held_out;
}

std::optional<double> PlannedTargetLoss(const std::string& plan_text) {
  const absl::StatusOr<TomlValue> plan = ParseToml(plan_text, "plan");
  const double* value = plan.ok() ? FindAs<double>(*plan, "plan.target_loss_nat") : nullptr;
  return value == nullptr ? std::nullopt : std::optional(*value);
}

const PlannedRun* ReferenceOf(const CampaignSpec& campaign, const PlannedRun& run) {
  const auto found =
      std::find_if(campaign.runs.begin(), campaign.runs.end(), [&](const PlannedRun& other) {
        return other.arm == run.reference && other.seed == run.seed;
      });
  return found == campaign.runs.end() ? nullptr : &*found;
}

bool HasQ(const CampaignSpec& campaign, const PlannedRun& run) {
  const PlannedRun* reference = ReferenceOf(campaign, run);
  return reference != nullptr && CompressedCrossings(run.spec) > 0 &&
         ChangesBesideCodecs(reference->spec, run.spec).empty();
}

}  // namespace longhaul
