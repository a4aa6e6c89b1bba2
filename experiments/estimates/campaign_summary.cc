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

// "s8 costs 0.0210 [0.0160, 0.0260] nat, the worth of 6.4 % of the tokens [4.9, 8.0]"
std::string CostOf(const ArmResult& arm) {
  const Efficiency& e = *arm.off;
  std::string text = fmt::format("{} costs {} nat", arm.arm, WithInterval(e.delta_nat, 4));
  if (e.IsBound()) {
    return text + fmt::format(", the worth of at least {} of the tokens", Percent(1 - e.eta.value));
  }
  text += fmt::format(", the worth of {} of the tokens", Percent(1 - e.eta.value));
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

std::string ToSettle(const CampaignAnalysis& a, const ArmResult& arm) {
  const double k = static_cast<double>(arm.crossings);
  const int seeds = SeedsFor(arm, arm.off->ln_eta.value - k * std::log(AssumedQ(arm.directions())));
  if (seeds > kMostPairs) {
    return fmt::format(
        "{} lies so close to 0.995 a crossing that 1,000 seeds would not tell them "
        "apart.",
        arm.arm);
  }
  const int more = std::max(1, seeds - static_cast<int>(arm.off->seeds));
  std::string text = fmt::format(
      "To tell {} from 0.995, if it is what it seems, takes {} seeds (80 % power): {} more",
      arm.arm, seeds, more);
  const double each = SecondsPerSeed(a);
  if (each > 0) {
    text +=
        fmt::format(", {} of runs one after another at this campaign's pace",
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

}  // namespace

std::string CampaignSummary(const CampaignAnalysis& a) {
  if (!a.failed_controls.empty()) {
    return "In words: nothing is concluded, because a control missed what is known. Look for what "
           "disturbed the runs, or for budgets too far apart, before more seeds are spent.";
  }
  const ArmResult* primary = Primary(a);
  if (!a.curve || primary == nullptr) return "";
  std::string text = "In words: " + CostOf(*primary) + ".";
  std::vector<std::string_view> below, above, above_one_way, open, single;
  const ArmResult* nearest = nullptr;  // of the open ones, the one that needs the fewest seeds
  for (const ArmResult& arm : a.arms) {
    if (!arm.HasQ() || !arm.off || arm.role != Role::kArm) continue;
    switch (arm.verdict()) {
      case Verdict::kBelow:
      case Verdict::kBelowOneWay:
        below.push_back(arm.arm);
        break;
      case Verdict::kAboveOneWay:
        above_one_way.push_back(arm.arm);
        break;
      case Verdict::kAbove:
        above.push_back(arm.arm);
        break;
      case Verdict::kNotResolved: {
        open.push_back(arm.arm);
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
  if (!below.empty()) {
    text += fmt::format(" A crossing costs more than planners assume (0.995) in {}.",
                        fmt::join(below, ", "));
  }
  if (!above.empty()) {
    text += fmt::format(
        " {} in {}.",
        below.empty() ? "A crossing costs less than planners assume (0.995)" : "It costs less",
        fmt::join(above, ", "));
  }
  if (!above_one_way.empty()) {
    text += fmt::format(" One direction keeps more than 0.990 per boundary in {}.",
                        fmt::join(above_one_way, ", "));
  }
  if (!open.empty()) {
    text += fmt::format(" Not told from 0.995: {}.", fmt::join(open, ", "));
    if (!nearest->off->IsBound()) text += " " + ToSettle(a, *nearest);
  }
  if (!single.empty()) text += fmt::format(" Without an interval: {}.", fmt::join(single, ", "));
  return text;
}

}  // namespace longhaul
