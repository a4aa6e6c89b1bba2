#include "experiments/price/price_estimates.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "experiments/estimates/student_t.h"

namespace longhaul {
namespace {

constexpr double kLevel = 0.95;

}  // namespace

RowValues Less(std::span<const double> b, std::span<const double> a) {
  RowValues out(b.size());
  std::transform(b.begin(), b.end(), a.begin(), out.begin(), std::minus<>());
  return out;
}

RowValues Times(double factor, std::span<const double> x) {
  RowValues out(x.begin(), x.end());
  for (double& value : out) value *= factor;
  return out;
}

Measured DeltaOf(std::span<const double> arm, std::span<const double> exact) {
  return MeanWithInterval(Less(arm, exact), kLevel);
}

Measured MeanWithin(std::span<const double> x, double least, double most) {
  Measured mean = MeanWithInterval(x, kLevel);
  if (mean.interval) {
    mean.interval->low = std::max(mean.interval->low, least);
    mean.interval->high = std::min(mean.interval->high, most);
  }
  return mean;
}

Measured Interaction(std::span<const double> all, std::span<const RowValues> alone,
                     std::span<const double> exact) {
  RowValues rows = Less(all, exact);
  for (const RowValues& one : alone) rows = Less(rows, Less(one, exact));
  return MeanWithInterval(rows, kLevel);
}

std::optional<WorstBoundary> FindWorst(std::span<const RowValues> alone) {
  if (alone.size() < 2) return std::nullopt;
  std::vector<size_t> order(alone.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<double> means;
  for (const RowValues& one : alone) means.push_back(Mean(one));
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return means[a] < means[b]; });
  const size_t worst = order.back(), median = order[(order.size() - 1) / 2];
  const size_t pairs = alone.size() * (alone.size() - 1) / 2;
  const double level = 1 - (1 - kLevel) / static_cast<double>(pairs);
  return WorstBoundary{.worst = worst,
                       .median = median,
                       .more = MeanWithInterval(Less(alone[worst], alone[median]), level),
                       .pairs = pairs};
}

AllowedBits BitsFor(double allowed, std::span<const PricedCodec> codecs) {
  AllowedBits out{.allowed = allowed, .enough = std::nullopt, .too_few = std::nullopt};
  for (size_t c = 0; c < codecs.size(); ++c) {
    const std::optional<Interval>& interval = codecs[c].delta.interval;
    if (!interval) continue;
    const double bits = codecs[c].bits;
    if (interval->high <= allowed && (!out.enough || bits < codecs[*out.enough].bits)) {
      out.enough = c;
    }
    if (interval->low > allowed && (!out.too_few || bits > codecs[*out.too_few].bits)) {
      out.too_few = c;
    }
  }
  return out;
}

double NeighbourCorrelation(std::span<const double> x) {
  const double mean = Mean(x);
  double all = 0, pairs = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    all += (x[i] - mean) * (x[i] - mean);
    if (i > 0) pairs += (x[i] - mean) * (x[i - 1] - mean);
  }
  return all > 0 ? pairs / all : 0;
}

double NeighbourBound(size_t rows, size_t arms) {
  return NormalQuantile(1 - (1 - kLevel) / 2 / static_cast<double>(arms)) /
         std::sqrt(static_cast<double>(rows));
}

}  // namespace longhaul
