#include "experiments/price/price_findings.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

namespace longhaul {
namespace {

// Blocks that are priced alone: of every cut and, with a budget, where a choice may put one.
std::vector<int64_t> PricedBlocks(const PriceRequest& request) {
  std::set<int64_t> blocks;
  for (const std::vector<int64_t>& cuts : request.cuts) {
    const int64_t move = request.budget_nat ? request.move : 0;
    const std::vector<int64_t> around = BlocksOf(RangesAround(cuts, move, request.blocks));
    blocks.insert(around.begin(), around.end());
  }
  return {blocks.begin(), blocks.end()};
}

// Losses by arm.
class Losses {
 public:
  explicit Losses(const PriceSeen& seen) : seen_(seen) {}
  const RowValues& Of(const PriceArm& arm) const { return seen_.losses[*seen_.arms.Find(arm)]; }
  const RowValues& Exact() const { return Of({}); }
  const RowValues& Alone(const PricedCrossing& crossing) const { return Of({crossing}); }
  // Of an arm's boundaries one by one.
  std::vector<RowValues> EachAlone(const PriceArm& arm) const {
    std::vector<RowValues> out;
    for (const PricedCrossing& crossing : arm) out.push_back(Alone(crossing));
    return out;
  }
  // Sum over an arm's boundaries of the row's Delta at each alone.
  RowValues SumAlone(const PriceArm& arm) const {
    RowValues sum(Exact().size());
    for (const PricedCrossing& crossing : arm) {
      const RowValues delta = Less(Alone(crossing), Exact());
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += delta[i];
    }
    return sum;
  }

 private:
  const PriceSeen& seen_;
};

RowValues InTextOrder(const RowValues& x, const std::vector<int64_t>& windows) {
  std::vector<size_t> order(x.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return windows[a] < windows[b]; });
  RowValues out;
  for (const size_t i : order) out.push_back(x[i]);
  return out;
}

double BitsOf(const PriceSeen& seen, const PriceArm& arm) {
  BoundaryCount all;
  for (const PricedCrossing& crossing : arm) all += seen.forward.at(crossing);
  return all.bits_per_element();
}

DepthPrice DepthOf(const PriceRequest& request, const PriceSeen& seen, size_t cuts, size_t codec) {
  const Losses losses(seen);
  const PriceArm arm = ArmOf(request.cuts[cuts], codec);
  const RowValues delta = Less(losses.Of(arm), losses.Exact());
  const std::vector<RowValues> alone = losses.EachAlone(arm);
  DepthPrice out{
      .cuts = cuts,
      .codec = codec,
      .delta = MeanWithInterval(delta, 0.95),
      .per_crossing = MeanWithInterval(Times(1 / static_cast<double>(arm.size()), delta), 0.95),
      .bits = BitsOf(seen, arm),
      .sum_alone = MeanWithInterval(losses.SumAlone(arm), 0.95),
      .interaction = std::nullopt,
      .worst = FindWorst(alone),
      .neighbour_correlation = NeighbourCorrelation(InTextOrder(delta, seen.windows))};
  if (arm.size() > 1) out.interaction = Interaction(losses.Of(arm), alone, losses.Exact());
  return out;
}

void AddAllowed(const PriceRequest& request, PriceFindings& findings) {
  for (size_t cuts = 0; cuts < request.cuts.size(); ++cuts) {
    std::vector<PricedCodec> priced;
    for (const DepthPrice& depth : findings.depths) {
      if (depth.cuts == cuts) {
        priced.push_back({request.codecs[depth.codec], depth.bits, depth.delta});
      }
    }
    for (const double allowed : request.allowed_nat) {
      const AllowedBits bits = BitsFor(allowed, priced);
      findings.allowed.push_back(
          {.cuts = cuts, .allowed = allowed, .enough = bits.enough, .too_few = bits.too_few});
    }
  }
}

void AddChoices(const PriceRequest& request, const PriceSeen& seen, PriceFindings& findings) {
  std::vector<SinglePrice> prices;
  for (const BoundaryPrice& b : findings.boundaries) {
    prices.push_back({b.crossing, b.delta.value, b.count.bits_per_element()});
  }
  for (size_t cuts = 0; cuts < request.cuts.size(); ++cuts) {
    ChoiceFinding& found = findings.choices.emplace_back(ChoiceFinding{.cuts = cuts});
    const absl::StatusOr<BoundaryChoice> choice =
        ChooseBoundaries(prices, RangesAround(request.cuts[cuts], request.move, request.blocks),
                         *request.budget_nat);
    if (!choice.ok()) {
      found.none = std::string(choice.status().message());
      continue;
    }
    found.choice = *choice;
    found.predicted = MeanWithInterval(Losses(seen).SumAlone(choice->arm), 0.95);
  }
}

}  // namespace

const char* ToString(GradientSide side) {
  switch (side) {
    case GradientSide::kForward:
      return "forward";
    case GradientSide::kBackward:
      return "backward";
    case GradientSide::kBoth:
      return "both";
  }
  return "";
}

PriceArms ArmsOf(const PriceRequest& request) {
  PriceArms arms;
  arms.Add({});
  for (const int64_t block : PricedBlocks(request)) {
    for (size_t codec = 0; codec < request.codecs.size(); ++codec) arms.Add({{block, codec}});
  }
  for (const std::vector<int64_t>& cuts : request.cuts) {
    for (size_t codec = 0; codec < request.codecs.size(); ++codec) arms.Add(ArmOf(cuts, codec));
  }
  return arms;
}

std::vector<GradientPlan> GradientsOf(const PriceRequest& request) {
  std::vector<GradientPlan> plans;
  for (size_t cuts = 0; cuts < request.cuts.size(); ++cuts) {
    for (size_t codec = 0; codec < request.codecs.size(); ++codec) {
      for (const auto side :
           {GradientSide::kForward, GradientSide::kBackward, GradientSide::kBoth}) {
        plans.push_back({cuts, codec, side});
      }
    }
  }
  return plans;
}

PriceFindings FindPrices(const PriceRequest& request, const PriceSeen& seen) {
  const Losses losses(seen);
  PriceFindings findings{.exact = MeanWithInterval(losses.Exact(), 0.95),
                         .depths = {},
                         .boundaries = {},
                         .allowed = {},
                         .choices = {},
                         .gradients = {}};
  for (size_t cuts = 0; cuts < request.cuts.size(); ++cuts) {
    for (size_t codec = 0; codec < request.codecs.size(); ++codec) {
      findings.depths.push_back(DepthOf(request, seen, cuts, codec));
    }
  }
  for (const int64_t block : PricedBlocks(request)) {
    for (size_t codec = 0; codec < request.codecs.size(); ++codec) {
      const PricedCrossing crossing = {block, codec};
      findings.boundaries.push_back(
          {crossing, DeltaOf(losses.Alone(crossing), losses.Exact()), seen.forward.at(crossing)});
    }
  }
  AddAllowed(request, findings);
  if (request.budget_nat) AddChoices(request, seen, findings);
  if (request.gradient_rows == 0) return findings;
  const std::vector<GradientPlan> plans = GradientsOf(request);
  for (size_t g = 0; g < plans.size(); ++g) {
    findings.gradients.push_back(
        {plans[g], MeanWithin(seen.gradient_nmse[g], 0, std::numeric_limits<double>::infinity()),
         MeanWithin(seen.gradient_cosine[g], -1, 1)});
  }
  return findings;
}

void AddVerification(const PriceRequest& request, const RowValues& arm, const RowValues& exact,
                     ChoiceFinding& choice) {
  choice.together = DeltaOf(arm, exact);
  if (const auto& interval = choice.together->interval) {
    choice.verdict = VerdictOf(interval->low, interval->high, *request.budget_nat);
  }
}

double MostAlike(const PriceFindings& findings) {
  double most = -1;
  for (const DepthPrice& d : findings.depths) most = std::max(most, d.neighbour_correlation);
  return most;
}

}  // namespace longhaul
