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

}  // namespace longhaul
