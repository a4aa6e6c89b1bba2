// What a design can see: before the first run, and after the last one.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/estimates/campaign_analysis.h"
#include "experiments/estimates/student_t.h"

namespace longhaul {
namespace {

constexpr int64_t kPilotSeeds = 3;

// Noise of the record's earlier campaigns, newest first. The campaign's own runs do not count: a
// forecast that changes while seeds come in would invite stopping on it.
absl::StatusOr<std::optional<Noise>> Pilot(const Record& record, const std::string& own_name) {
  absl::StatusOr<std::vector<ExperimentRow>> experiments = record.Experiments();
  if (!experiments.ok()) return experiments.status();
  for (auto e = experiments->rbegin(); e != experiments->rend(); ++e) {
    if (e->kind != ExperimentKind::kCampaign || e->name == own_name) continue;
    absl::StatusOr<CampaignAnalysis> a = Analyse(record, *e);
    if (!a.ok()) return a.status();
    const bool enough = a->curve && a->sd_delta_nat > 0 && a->curve->sigma_nat > 0 &&
                        std::any_of(a->arms.begin(), a->arms.end(), [](const ArmResult& arm) {
                          return arm.off && arm.off->seeds >= kPilotSeeds;
                        });
    if (!enough) continue;
    return Noise{a->curve->sigma_nat, a->rho, a->curve->slope_nat, "pilot '" + e->name + "'"};
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<ResolutionForecast> ForecastFor(const CampaignSpec& campaign, const Record* record) {
  absl::StatusOr<std::optional<Noise>> pilot = std::nullopt;
  if (record != nullptr) pilot = Pilot(*record, campaign.name);
  if (!pilot.ok()) return pilot.status();
  const Noise noise =
      pilot->value_or(Noise{campaign.assumed_sigma_nat, campaign.assumed_rho,
                            campaign.assumed_slope_nat, "assumed, no pilot in this record"});
  std::set<int64_t> depths;
  int64_t primary_stages = 1;
  for (const PlannedRun& run : campaign.runs) {
    if (run.role != Role::kArm) continue;
    depths.insert(run.spec.schedule.stages);
    if (run.arm == campaign.primary) primary_stages = run.spec.schedule.stages;
  }
  const std::vector<int64_t> stages(depths.begin(), depths.end());
  const int seeds = static_cast<int>(campaign.seeds.size());
  ResolutionForecast forecast{"Resolution forecast: " + ForecastSentence(seeds, noise, stages),
                              !Unresolved(seeds, noise, primary_stages)};
  forecast.text +=
      fmt::format("\nPrimary contrast: arm '{}', codec off at evaluation.", campaign.primary);
  if (seeds < 5) {
    forecast.text += fmt::format(
        "\nThis is a smoke campaign: {} seeds; fewer than five are for orientation only.", seeds);
  }
  return forecast;
}

std::string CampaignAnalysis::Resolvable() const {
  if (!curve) return "Nothing can be said yet: " + curve_note + ".";
  std::map<int64_t, int64_t> seeds_by_depth;
  for (const ArmResult& arm : arms) {
    if (arm.role != Role::kArm || !arm.off || arm.crossings == 0) continue;
    int64_t& seeds = seeds_by_depth[arm.stages];
    seeds = seeds == 0 ? arm.off->seeds : std::min(seeds, arm.off->seeds);
  }
  std::vector<std::string> parts;
  for (const auto& [stages, seeds] : seeds_by_depth) {
    if (seeds < 2 || sd_delta_nat == 0) continue;
    const double effect = DetectableEffect(static_cast<int>(seeds)) * sd_delta_nat /
                          curve->slope_nat / (2.0 * static_cast<double>(stages - 1));
    parts.push_back(fmt::format("{:.2f} % at S = {}", 100 * effect, stages));
  }
  if (parts.empty()) {
    return "One seed gives no interval: this record resolves nothing and has no headline.";
  }
  return fmt::format(
      "Losses per crossing below {} are invisible in this design (80 % power, two-sided 5 %).",
      fmt::join(parts, ", "));
}

std::string CampaignAnalysis::Conditions() const {
  std::string text = fmt::format("N = {:.3g} M parameters", static_cast<double>(parameters) / 1e6);
  if (experiment.d0_tokens) {
    text += fmt::format(", D0 = {:.3g} M tokens", static_cast<double>(*experiment.d0_tokens) / 1e6);
  }
  if (curve) {
    text += fmt::format(", n = {}, sigma {:.4f} nat, rho {:.2f}, s {:.3f} nat",
                        curve->d0_loss_by_seed.size(), curve->sigma_nat, rho, curve->slope_nat);
  }
  return text + ", plan " + experiment.plan_sha256.substr(0, 12);
}

}  // namespace longhaul
