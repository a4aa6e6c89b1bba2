// What a design can see: before the first run, and after the last one.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/estimates/campaign_analysis.h"
#include "experiments/estimates/forecast.h"
#include "experiments/estimates/interval.h"

namespace longhaul {
namespace {

constexpr double kEffectToSee = 0.005;  // per crossing: what planning assumes

}  // namespace

double Noise::SdDelta() const { return sigma_nat * std::sqrt(2 * (1 - rho)); }

std::string ToString(const Depth& depth) {
  return fmt::format("{}{}", depth.stages,
                     depth.crossings < 2 * (depth.stages - 1) ? " one way" : "");
}

std::vector<Resolution> Resolve(int seeds, const Noise& noise, std::span<const Depth> depths) {
  std::vector<Resolution> out;
  for (const Depth& depth : depths) {
    if (depth.crossings <= 0) continue;
    const double crossings = static_cast<double>(depth.crossings);
    const double sd_ln_eta = noise.SdDelta() / noise.slope_nat;
    Resolution r{depth, std::numeric_limits<double>::infinity(),
                 std::numeric_limits<double>::infinity()};
    if (seeds >= 2) {
      r.half_width_q = TQuantile(0.975, seeds - 1) * sd_ln_eta / std::sqrt(seeds) / crossings;
      r.smallest_effect_q = DetectableEffect(seeds) * sd_ln_eta / crossings;
    }
    out.push_back(r);
  }
  return out;
}

std::string ForecastSentence(int seeds, const Noise& noise, std::span<const Depth> depths) {
  std::string text = fmt::format("n = {}, sigma {:.4f}, rho {:.1f} ({}), s {:.2f}: ", seeds,
                                 noise.sigma_nat, noise.rho, noise.source, noise.slope_nat);
  const std::vector<Resolution> all = Resolve(seeds, noise, depths);
  if (all.empty()) return text + "no arm has a q: none crosses a boundary with a codec alone.";
  if (seeds < 2) return text + "one seed gives no interval and no headline.";
  std::vector<std::string> widths, hidden;
  for (const Resolution& r : all) {
    widths.push_back(fmt::format("{:.4f} at S={}", r.half_width_q, ToString(r.depth)));
    if (r.smallest_effect_q > kEffectToSee) hidden.push_back(ToString(r.depth));
  }
  text += fmt::format("95% half-width on q is {}; ", fmt::join(widths, ", "));
  if (hidden.empty()) return text + "a loss of 0.5% per crossing is resolvable at each.";
  return text + fmt::format("a loss of 0.5% per crossing is NOT resolvable at S = {}.",
                            fmt::join(hidden, ", "));
}

bool Unresolved(int seeds, const Noise& noise, const Depth& depth) {
  const std::vector<Resolution> all = Resolve(seeds, noise, std::span(&depth, 1));
  return !all.empty() && all[0].smallest_effect_q > kEffectToSee;
}

namespace {

constexpr int64_t kPilotSeeds = 3;

// What noise, slope and pairing hang on; where and how a run was executed does not change them.
bool ChangesNoise(const SpecChange& change) {
  for (const std::string_view table : {"model.", "data.", "train.", "outer.", "eval."}) {
    if (change.key.starts_with(table)) return true;
  }
  return false;
}

// How a pilot's D0 reference differs from the planned one; empty where it may speak for it.
std::vector<SpecChange> Unlike(const CampaignAnalysis& pilot, const std::string& planned_d0) {
  const auto d0 = std::find_if(pilot.arms.begin(), pilot.arms.end(),
                               [](const ArmResult& arm) { return arm.arm == kD0Reference; });
  std::vector<SpecChange> changes = SpecChanges(planned_d0, d0->outcomes.front().run.spec_toml);
  std::erase_if(changes, [](const SpecChange& change) { return !ChangesNoise(change); });
  return changes;
}

// Noise of the record's earlier campaigns, newest first, and a line for each that may not speak.
// The campaign's own runs do not count: a forecast that changes while seeds come in would invite
// stopping on it.
absl::StatusOr<std::optional<Noise>> Pilot(const Record& record, const std::string& own_name,
                                           const std::string& planned_d0, std::string* refused) {
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
    if (const std::vector<SpecChange> changes = Unlike(*a, planned_d0); !changes.empty()) {
      *refused += fmt::format("\nCampaign '{}' of this record is no pilot for this one: {}.",
                              e->name, ToString(changes));
      continue;
    }
    return Noise{a->curve->sigma_nat, a->rho, a->curve->slope_nat, "pilot '" + e->name + "'"};
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<ResolutionForecast> ForecastFor(const CampaignSpec& campaign, const Record* record) {
  std::string planned_d0, refused;
  for (const PlannedRun& run : campaign.runs) {
    if (run.arm == kD0Reference) planned_d0 = ToToml(run.spec);
  }
  absl::StatusOr<std::optional<Noise>> pilot = std::nullopt;
  if (record != nullptr) pilot = Pilot(*record, campaign.name, planned_d0, &refused);
  if (!pilot.ok()) return pilot.status();
  const Noise noise =
      pilot->value_or(Noise{campaign.assumed_sigma_nat, campaign.assumed_rho,
                            campaign.assumed_slope_nat, "assumed, no pilot in this record"});
  std::set<Depth> distinct;
  Depth primary{1, 0};  // without a q there is nothing per crossing to resolve
  for (const PlannedRun& run : campaign.runs) {
    if (run.seed != campaign.seeds.front() || !HasQ(campaign, run)) continue;
    const RunSpec& spec = run.spec;
    const Depth depth{spec.schedule.stages, CompressedCrossings(spec)};
    distinct.insert(depth);
    if (run.arm == campaign.primary) primary = depth;
  }
  const std::vector<Depth> depths(distinct.begin(), distinct.end());
  const int seeds = static_cast<int>(campaign.seeds.size());
  ResolutionForecast forecast{
      "Resolution forecast: " + ForecastSentence(seeds, noise, depths) + refused,
      !Unresolved(seeds, noise, primary)};
  forecast.text +=
      fmt::format("\nPrimary contrast: arm '{}', codec off at evaluation.", campaign.primary);
  if (primary.crossings == 0) {
    forecast.text +=
        " It changes more than stages and codecs, or crosses nothing: its result is an "
        "efficiency, not a q.";
  }
  if (seeds < 5) {
    forecast.text += fmt::format(
        "\nThis is a smoke campaign: {} seeds; fewer than five are for orientation only.", seeds);
  }
  return forecast;
}

std::string CampaignAnalysis::Resolvable() const {
  if (!failed_controls.empty()) {
    return fmt::format("CONTROLS FAILED, no conclusion is drawn: {}.",
                       fmt::join(failed_controls, "; "));
  }
  if (!curve) return "Nothing can be said yet: " + curve_note + ".";
  std::map<Depth, int64_t> seeds_by_depth;
  for (const ArmResult& arm : arms) {
    if (!arm.HasQ() || !arm.off) continue;
    int64_t& seeds = seeds_by_depth[{arm.stages, arm.crossings}];
    seeds = seeds == 0 ? arm.off->seeds : std::min(seeds, arm.off->seeds);
  }
  if (seeds_by_depth.empty()) return "No arm of this record has a q: nothing per crossing is said.";
  std::vector<std::string> parts;
  bool several_seeds = false;
  for (const auto& [depth, seeds] : seeds_by_depth) {
    several_seeds |= seeds >= 2;
    if (seeds < 2 || sd_delta_nat == 0) continue;
    const double effect = DetectableEffect(static_cast<int>(seeds)) * sd_delta_nat /
                          curve->slope_nat / static_cast<double>(depth.crossings);
    parts.push_back(fmt::format("{:.2f} % at S = {}", 100 * effect, ToString(depth)));
  }
  if (parts.empty()) {
    return several_seeds
               ? "Every arm has the bits of its reference: there is no noise to resolve against."
               : "One seed gives no interval: this record resolves nothing and has no headline.";
  }
  return fmt::format(
      "Losses per crossing below {} are invisible in this design (80 % power, two-sided 5 %).",
      fmt::join(parts, ", "));
}

std::string CampaignAnalysis::Conditions() const {
  std::string text =
      parameters > 0 ? fmt::format("N = {:.3g} M parameters", static_cast<double>(parameters) / 1e6)
                     : std::string("a program's model");
  if (experiment.d0_tokens) {
    const double tokens = static_cast<double>(*experiment.d0_tokens);
    text += fmt::format(", D0 = {:.3g} M tokens", tokens / 1e6);
    if (parameters > 0) {
      text +=
          fmt::format(" ({:.3g} tokens per parameter)", tokens / static_cast<double>(parameters));
    }
  }
  if (curve) {
    text += fmt::format(", n = {}, sigma {:.4f} nat, rho {:.2f}, s {:.3f} nat",
                        curve->d0_loss_by_seed.size(), curve->sigma_nat, rho, curve->slope_nat);
  }
  return text + ", plan " + experiment.plan_sha256.substr(0, 12);
}

}  // namespace longhaul
