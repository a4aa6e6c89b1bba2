#include "experiments/estimates/forecast.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/estimates/student_t.h"

namespace longhaul {
namespace {

constexpr double kEffectToSee = 0.005;  // per crossing: what planning assumes

}  // namespace

double Noise::SdDelta() const { return sigma_nat * std::sqrt(2 * (1 - rho)); }

std::vector<Resolution> Resolve(int seeds, const Noise& noise, std::span<const int64_t> stages) {
  std::vector<Resolution> out;
  for (const int64_t s : stages) {
    const double crossings = 2.0 * static_cast<double>(s - 1);
    if (crossings <= 0) continue;
    const double sd_ln_eta = noise.SdDelta() / noise.slope_nat;
    Resolution r{s, 2 * (s - 1), std::numeric_limits<double>::infinity(),
                 std::numeric_limits<double>::infinity()};
    if (seeds >= 2) {
      r.half_width_q = TQuantile(0.975, seeds - 1) * sd_ln_eta / std::sqrt(seeds) / crossings;
      r.smallest_effect_q = DetectableEffect(seeds) * sd_ln_eta / crossings;
    }
    out.push_back(r);
  }
  return out;
}

std::string ForecastSentence(int seeds, const Noise& noise, std::span<const int64_t> stages) {
  std::string text = fmt::format("n = {}, sigma {:.4f}, rho {:.1f} ({}), s {:.2f}: ", seeds,
                                 noise.sigma_nat, noise.rho, noise.source, noise.slope_nat);
  const std::vector<Resolution> all = Resolve(seeds, noise, stages);
  if (all.empty()) return text + "no arm has a boundary, so there is no q to resolve.";
  if (seeds < 2) return text + "one seed gives no interval and no headline.";
  std::vector<std::string> widths, hidden;
  for (const Resolution& r : all) {
    widths.push_back(fmt::format("{:.4f} at S={}", r.half_width_q, r.stages));
    if (r.smallest_effect_q > kEffectToSee) hidden.push_back(fmt::format("{}", r.stages));
  }
  text += fmt::format("95% half-width on q is {}; ", fmt::join(widths, ", "));
  if (hidden.empty()) return text + "a loss of 0.5% per crossing is resolvable at each.";
  return text + fmt::format("a loss of 0.5% per crossing is NOT resolvable at S = {}.",
                            fmt::join(hidden, ", "));
}

bool Unresolved(int seeds, const Noise& noise, int64_t stages) {
  const std::vector<Resolution> all = Resolve(seeds, noise, std::span(&stages, 1));
  return !all.empty() && all[0].smallest_effect_q > kEffectToSee;
}

}  // namespace longhaul
