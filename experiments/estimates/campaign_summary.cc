// What a campaign found, what it did not, and what would settle it, for a reader who skips the table.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "absl/time/time.h"
#include "experiments/estimates/campaign_analysis.h"
#include "experiments/estimates/interval.h"

namespace longhaul {
namespace {

constexpr int kMostPairs = 1000;  // what PairsNeeded looks up to

std::string Percent(double share) { return fmt::format("{:.2g} %", 100 * share); }

// "s8 raises the held-out loss by 0.0210 nat [0.0160, 0.0260]; an uncompressed run reaches that loss
// with 6.4 % fewer tokens [4.9, 8.0]"
std::string CostOf(const ArmResult& arm) {
  const Efficiency& e = *arm.off;
  const auto interval = [](const std::optional<Interval>& i, auto end) {
    return i ? fmt::format(" [{}, {}]", end(i->low), end(i->high)) : std::string();
  };
  std::string text = fmt::format(
      "{} {} the held-out loss by {:.4f} nat{}", arm.arm,
      e.delta_nat.value < 0 ? "changes" : "raises", e.delta_nat.value,
      interval(e.delta_nat.interval, [](double x) { return fmt::format("{:.4f}", x); }));
  if (e.delta_nat.value < 0) return text;
  text += "; an uncompressed run reaches that loss with ";
  if (e.IsBound()) {
    return text + fmt::format("at least {} fewer tokens", Percent(1 - e.eta.value));
  }
  text += fmt::format("{} fewer tokens", Percent(1 - e.eta.value));
  if (!e.eta.interval) return text;
  return text + fmt::format(" [{}{:.2g}, {:.2g}]", e.eta.bound == Bound::kLowEnd ? ">= " : "",
                            100 * (1 - e.eta.interval->high), 100 * (1 - e.eta.interval->low));
}

// One seed of the whole campaign, its runs one after another; 0: no run has both times.
double SecondsPerSeed(const CampaignAnalysis& a) {
  double seconds = 0;
  std::set<int64_t> seeds;
  for (const ArmResult& arm : a.arms) {
    for (const Outcome& o : arm.outcomes) {
      absl::Time begun, finished;
      std::string ignored;
      if (o.run.facts.contains(kLossesFact)) continue;  // read from a file in no time
      if (!absl::ParseTime(absl::RFC3339_full, o.run.begun_utc, &begun, &ignored) ||
          !absl::ParseTime(absl::RFC3339_full, o.run.finished_utc, &finished, &ignored)) {
        continue;
      }
      seconds += absl::ToDoubleSeconds(finished - begun);
      seeds.insert(o.run.seed);
    }
  }
  return seeds.empty() ? 0 : seconds / static_cast<double>(seeds.size());
}

// Seeds in all with which a difference of `effect` in ln eta is found in four campaigns of five.
int SeedsFor(const ArmResult& arm, double effect) {
  const Interval& interval = *arm.off->ln_eta.interval;
  const double n = static_cast<double>(arm.off->seeds);
  const double t = TQuantile(0.5 + interval.level / 2, n - 1);
  const double sd = (interval.high - interval.low) / 2 / t * std::sqrt(n);
  return sd > 0 ? PairsNeeded(std::abs(effect) / sd) : 2;
}

// What planning assumes of an arm's crossings.
std::string_view Assumption(const ArmResult& arm) {
  return arm.directions() == 1 ? "0.990 per boundary" : "0.995";
}

std::string ToSettle(const CampaignAnalysis& a, const ArmResult& arm) {
  const double k = static_cast<double>(arm.crossings);
  const int seeds = SeedsFor(arm, arm.off->ln_eta.value - k * std::log(AssumedQ(arm.directions())));
  if (seeds > kMostPairs) {
    return fmt::format("{} is so close to {} that 1,000 seeds would not separate them.", arm.arm,
                       Assumption(arm));
  }
  const int more = std::max(1, seeds - static_cast<int>(arm.off->seeds));
  std::string text = fmt::format(
      "Separating {} from {} with 80 % power takes {} seeds, {} more, if its mean stays", arm.arm,
      Assumption(arm), seeds, more);
  const double each = SecondsPerSeed(a);
  if (each > 0) {
    text +=
        fmt::format(" ({} of runs one after another at this campaign's pace)",
                    absl::FormatDuration(absl::Ceil(absl::Seconds(each * more), absl::Minutes(1))));
  }
  return text + ".";
}

const ArmResult* Primary(const CampaignAnalysis& a) {
  const ArmResult* named = FindArm(a, a.findings.primary);
  if (named != nullptr && named->off) return named;
  const auto first = std::find_if(a.arms.begin(), a.arms.end(),
                                  [](const ArmResult& arm) { return arm.HasQ() && arm.off; });
  return first == a.arms.end() ? nullptr : &*first;
}

// What the arm's q would do to eight stages in a planning model.
std::string Sensitivity(const ArmResult& arm) {
  if (!arm.off->q) return "";
  const bool both = arm.crossings == 2 * (arm.stages - 1);
  const double k = both ? 14 : 7;
  std::string eta = fmt::format("{:.2f}", std::pow(arm.off->q->value, k));
  if (const auto& i = arm.off->q->interval) {
    eta += fmt::format(" [{:.2f}, {:.2f}]", std::pow(i->low, k), std::pow(i->high, k));
  }
  return fmt::format(
      " Sensitivity of a planner (no verdict on other models): eight stages (K = {:g}) have an "
      "efficiency of {} with this q and {:.2f} with {:.3f}; {:g} or more takes q >= {:.4f}.",
      k, eta, std::pow(AssumedQ(arm.directions()), k), AssumedQ(arm.directions()), kEightStageFloor,
      std::pow(kEightStageFloor, 1 / k));
}

}  // namespace

std::string CampaignSummary(const CampaignAnalysis& a) {
  if (!a.failed_controls.empty()) {
    return "No conclusion: a control run did not recover its known efficiency. Look for what disturbed "
           "the runs, or for budgets too far apart, before running more seeds.";
  }
  const ArmResult* primary = Primary(a);
  if (!a.curve || primary == nullptr) return "";
  std::string text = CostOf(*primary) + ".";
  std::vector<std::string_view> below, above, above_one_way, below_one_way, open, open_one_way,
      single;
  const ArmResult* nearest = nullptr;  // of the open ones, the one that needs the fewest seeds
  for (const ArmResult& arm : a.arms) {
    if (!arm.HasQ() || !arm.off || arm.role != Role::kArm) continue;
    switch (arm.verdict()) {
      case Verdict::kBelow:
        below.push_back(arm.arm);
        break;
      case Verdict::kBelowOneWay:
        below_one_way.push_back(arm.arm);
        break;
      case Verdict::kAboveOneWay:
        above_one_way.push_back(arm.arm);
        break;
      case Verdict::kAbove:
        above.push_back(arm.arm);
        break;
      case Verdict::kNotResolved: {
        (arm.directions() == 1 ? open_one_way : open).push_back(arm.arm);
        const auto seeds = [](const ArmResult& x) {
          const double k = static_cast<double>(x.crossings);
          return SeedsFor(x, x.off->ln_eta.value - k * std::log(AssumedQ(x.directions())));
        };
        if (nearest == nullptr || (nearest != primary && seeds(arm) < seeds(*nearest)) ||
            &arm == primary) {
          nearest = &arm;
        }
        break;
      }
      default:
        single.push_back(arm.arm);
    }
  }
  const std::string size = a.parameters > 0 ? fmt::format(" at {:.3g} M parameters",
                                                          static_cast<double>(a.parameters) / 1e6)
                                            : std::string();
  if (!below.empty()) {
    text += fmt::format(" q = 0.995 per crossing is too high{}: {}.", size, fmt::join(below, ", "));
  }
  if (!above.empty()) {
    text += fmt::format(" q = 0.995 per crossing is too low{}: {}.", size, fmt::join(above, ", "));
  }
  const auto one_way = [&](const char* what, const std::vector<std::string_view>& arms) {
    if (arms.empty()) return;
    text += fmt::format(" One direction, {} 0.990 per boundary: {}.", what, fmt::join(arms, ", "));
  };
  one_way("less than", below_one_way);
  one_way("more than", above_one_way);
  if (!open.empty()) {
    text += fmt::format(" Not distinguishable from 0.995{}: {}.", size, fmt::join(open, ", "));
  }
  one_way("not distinguishable from", open_one_way);
  if (nearest != nullptr && !nearest->off->IsBound()) text += " " + ToSettle(a, *nearest);
  if (!single.empty()) text += fmt::format(" Without an interval: {}.", fmt::join(single, ", "));
  return text + Sensitivity(*primary);
}

}  // namespace longhaul
