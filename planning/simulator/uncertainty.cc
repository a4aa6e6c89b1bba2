#include "planning/simulator/uncertainty.h"

#include <algorithm>
#include <cmath>

#include "planning/simulator/draws.h"
#include "planning/simulator/simulate.h"

namespace longhaul::simulator {
namespace {

ResultRow RowOf(const Scenario& scenario) {
  ResultRow row;
  row.scenario = scenario;
  row.outcome = Simulate(scenario);
  return row;
}

std::vector<Spread> Spreads(const Scenario& middle, const Assumptions& assumptions) {
  const std::span<const Quantity> columns = Quantities();
  std::vector<std::vector<double>> drawn(columns.size());
  Scenario s = middle;
  for (size_t draw = 0; draw < kUncertainDraws; ++draw) {
    for (const Assumption& a : assumptions.factors) {
      if (!a.uncertain()) continue;
      // By key and not by place: one more factor leaves the draws of the others as they are.
      const double u = Uniform(static_cast<uint64_t>(assumptions.seed), draw, a.key);
      a.Set(s.measured, TriangularQuantile(a.low, a.mid, a.high, u));
    }
    const ResultRow row = RowOf(s);
    for (size_t i = 0; i < columns.size(); ++i) drawn[i].push_back(columns[i].get(row));
  }
  const ResultRow at_middle = RowOf(middle);
  std::vector<Spread> out;
  for (size_t i = 0; i < columns.size(); ++i) {
    std::vector<double>& v = drawn[i];
    std::sort(v.begin(), v.end());
    constexpr size_t kTail = kUncertainDraws / 20, kQuarter = kUncertainDraws / 4;
    const double median = (v[kUncertainDraws / 2 - 1] + v[kUncertainDraws / 2]) / 2;
    out.push_back({columns[i].name, columns[i].get(at_middle), v[kTail], median,
                   v[kUncertainDraws - 1 - kTail], v[kQuarter], v[kUncertainDraws - 1 - kQuarter]});
  }
  return out;
}

std::vector<Lever> Levers(const Scenario& middle, const Assumptions& assumptions) {
  struct Ends {
    const Assumption* factor;
    ResultRow low, high;
  };
  std::vector<Ends> ends;
  for (const Assumption& a : assumptions.factors) {
    if (!a.uncertain()) continue;
    Scenario low = middle, high = middle;
    a.Set(low.measured, a.low);
    a.Set(high.measured, a.high);
    ends.push_back({&a, RowOf(low), RowOf(high)});
  }
  const ResultRow at_middle = RowOf(middle);
  std::vector<Lever> out;
  for (const Quantity& column : Quantities()) {
    const auto first = static_cast<std::ptrdiff_t>(out.size());
    for (const Ends& e : ends) {
      Lever lever{
          column.name,       std::string(e.factor->name()), e.factor->low,     e.factor->high,
          column.get(e.low), column.get(at_middle),         column.get(e.high)};
      if (lever.moves() > 0) out.push_back(std::move(lever));
    }
    std::stable_sort(out.begin() + first, out.end(),
                     [](const Lever& a, const Lever& b) { return a.moves() > b.moves(); });
  }
  return out;
}

}  // namespace

double Uniform(uint64_t seed, uint64_t draw, uint64_t source) {
  constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;
  const uint64_t bits = Mix(Mix((seed + 1) * kStep) ^ ((draw * 64 + source + 1) * kStep));
  return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
}

double TriangularQuantile(double low, double mid, double high, double u) {
  if (!(low < high)) return mid;
  const double below = (mid - low) / (high - low);
  return u < below ? low + std::sqrt(u * (high - low) * (mid - low))
                   : high - std::sqrt((1 - u) * (high - low) * (high - mid));
}

double Lever::moves() const {
  return std::max({at_low, at_mid, at_high}) - std::min({at_low, at_mid, at_high});
}

Uncertainty Propagate(const Scenario& scenario, const Assumptions& assumptions) {
  return {Spreads(scenario, assumptions), Levers(scenario, assumptions)};
}

}  // namespace longhaul::simulator
