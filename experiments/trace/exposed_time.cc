#include "experiments/trace/exposed_time.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "pp_group/rank_span.h"

namespace longhaul {
namespace {

// One exchange, as one rank has it.
struct OfRank {
  int64_t begun_ns = INT64_MAX, there_ns = INT64_MIN, told_ns = 0, waited_ns = 0, worked_ns = 0;
  int64_t took_ns() const { return (there_ns > begun_ns ? there_ns - begun_ns : 0) + told_ns; }
  int64_t cost_ns() const { return waited_ns + worked_ns; }
};

std::map<int, OfRank> ByRank(const std::vector<TraceSpan>& spans,
                             const std::pair<int64_t, int64_t>& exchange) {
  std::map<int, OfRank> ranks;
  for (const TraceSpan& s : spans) {
    if (std::pair(s.exchange, s.fragment) != exchange) continue;
    OfRank& own = ranks[s.rank];
    own.begun_ns = std::min(own.begun_ns, s.begin_ns);
    if (s.lane == TraceLane::kLink) {
      own.there_ns = std::max(own.there_ns, s.left_ns);
      OfRank& receiver = ranks[s.peer];
      receiver.there_ns = std::max(receiver.there_ns, s.end_ns);
    }
    const int64_t lasted = s.end_ns - s.begin_ns;
    if (s.lane == TraceLane::kExchange) own.worked_ns += lasted;
    if (s.lane == TraceLane::kExchangeWait) own.waited_ns += lasted;
    if (s.lane == TraceLane::kExchangeWait && s.what == kNormsOfStages) own.told_ns += lasted;
  }
  return ranks;
}

// Of the group that it cost most, the rank that it cost least.
OfRank TheOneThatCounts(const std::map<int, OfRank>& ranks, int ranks_of_group) {
  std::map<int, OfRank> groups;
  for (const auto& [rank, own] : ranks) {
    OfRank& least = groups.try_emplace(rank / ranks_of_group, own).first->second;
    if (own.cost_ns() < least.cost_ns()) least = own;
  }
  return std::max_element(
             groups.begin(), groups.end(),
             [](const auto& a, const auto& b) { return a.second.cost_ns() < b.second.cost_ns(); })
      ->second;
}

}  // namespace

std::optional<ExposedTime> ExposedTimeOf(const std::vector<TraceSpan>& spans,
                                         const std::vector<std::pair<int64_t, int64_t>>& exchanges,
                                         int ranks_of_group) {
  ExposedTime sum;
  int64_t steps_ns = 0, exposed_ns = 0;
  std::map<int, int64_t> steps;  // by rank
  for (const TraceSpan& s : spans) {
    if (s.lane != TraceLane::kStep) continue;
    steps_ns += s.end_ns - s.begin_ns;
    ++steps[s.rank];
  }
  for (const auto& exchange : exchanges) {
    const std::map<int, OfRank> ranks = ByRank(spans, exchange);
    if (ranks.empty()) continue;
    const OfRank counts = TheOneThatCounts(ranks, ranks_of_group);
    ++sum.exchanges;
    sum.took_s += static_cast<double>(counts.took_ns()) * 1e-9;
    sum.waited_s += static_cast<double>(counts.waited_ns) * 1e-9;
    sum.worked_s += static_cast<double>(counts.worked_ns) * 1e-9;
    exposed_ns += counts.cost_ns();
  }
  if (sum.exchanges == 0) return std::nullopt;
  for (double* s : {&sum.took_s, &sum.waited_s, &sum.worked_s}) {
    *s /= static_cast<double>(sum.exchanges);
  }
  if (!steps.empty()) {
    const double of_a_rank = static_cast<double>(steps_ns) / static_cast<double>(steps.size());
    sum.step_s = (of_a_rank - static_cast<double>(exposed_ns)) * 1e-9 /
                 static_cast<double>(steps.begin()->second);
  }
  return sum;
}

std::string TextOf(const ExposedTime& e) {
  return fmt::format(
      "an exchange between groups takes {:.4g} s; exposed are {:.4g} s, {:.3g} % of a step of {:.4g} "
      "s: {:.4g} s of waiting and {:.4g} s of coding and applying (mean of {} in the trace)",
      e.took_s, e.exposed_s(), 100 * e.share(), e.step_s, e.waited_s, e.worked_s, e.exchanges);
}

}  // namespace longhaul
