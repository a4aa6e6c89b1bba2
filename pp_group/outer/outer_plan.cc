#include "pp_group/outer/outer_plan.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "compressors/numbers/noise.h"
#include "pp_group/outer/outer_rules.h"

namespace longhaul {
namespace {

constexpr uint64_t kPairsNoise = 0x70616972;  // apart from what codecs and data draw

}  // namespace

bool AllMeet(const std::string& algorithm) {
  const OuterRule* rule = FindOuterRule(algorithm);
  return rule == nullptr || rule->meets == OuterRule::Meets::kAll;
}

OuterPlan::OuterPlan(const OuterSpec& spec, int64_t steps, int64_t groups, uint64_t seed)
    : steps_(steps),
      inner_steps_(spec.inner_steps),
      fragments_(std::max<int64_t>(1, spec.parts())),
      overlap_(spec.overlap()),
      gradients_(ExchangesGradients(spec.algorithm)),
      whole_rounds_(WholeRounds(spec)),
      groups_(groups),
      cluster_(std::max<int64_t>(1, spec.cluster_groups.value_or(0))),
      global_every_(std::max<int64_t>(1, spec.global_every.value_or(0))),
      seed_(seed),
      lr_schedule_(spec.steady() ? "constant" : spec.lr_schedule),
      lr_warmup_(spec.rate_warmup()) {
  round_ = gradients_ ? 1 : std::max<int64_t>(1, inner_steps_);
  const OuterRule* rule = FindOuterRule(spec.algorithm);
  if (rule == nullptr) return;
  if (rule->meets == OuterRule::Meets::kPairs) meets_ = Meets::kPairs;
  if (rule->meets == OuterRule::Meets::kLevels) meets_ = Meets::kLevels;
}

int64_t OuterPlan::LastStepOf(int64_t round) const { return std::min(round * round_, steps_); }

int64_t OuterPlan::RoundsBy(int64_t step) const {
  return step >= steps_ ? rounds() : step / round_;
}

double OuterPlan::RateShare(int64_t step) const {
  const int64_t before = RoundOf(step) - 1;
  if (before < lr_warmup_) {
    return static_cast<double>(before + 1) / static_cast<double>(lr_warmup_);
  }
  if (lr_schedule_ == "constant") return 1;
  const double gone =
      static_cast<double>(before - lr_warmup_) / static_cast<double>(rounds() - lr_warmup_);
  return lr_schedule_ == "linear" ? 1 - gone : 0.5 * (1 + std::cos(std::numbers::pi * gone));
}

std::vector<OuterExchange> OuterPlan::BegunAfter(int64_t step) const {
  std::vector<OuterExchange> begun;
  if (!exchanges() || step < 1 || step > steps_) return begun;
  const int64_t apart = std::max<int64_t>(1, inner_steps_ / fragments_);
  if (meets_ == Meets::kLevels) {
    if (!EndsRound(step)) return begun;
    begun.push_back({step, step, 0});
    if (step == steps_ || RoundOf(step) % global_every_ == 0) begun.push_back({step, step, 1});
    return begun;
  }
  if (step % apart == 0) {
    begun.push_back({.begun = step,
                     .applied = std::min(step + overlap_, steps_),
                     .fragment = step % inner_steps_ / apart});
  }
  if (step < steps_) return begun;
  begun.clear();
  for (int64_t f = 0; f < fragments_; ++f) begun.push_back({steps_, steps_, f});
  return begun;
}

std::vector<OuterExchange> OuterPlan::AppliedAfter(int64_t step) const {
  std::vector<OuterExchange> applied;
  for (int64_t begun = std::max<int64_t>(1, step - overlap_); begun <= step; ++begun) {
    for (const OuterExchange& e : BegunAfter(begun)) {
      if (e.applied == step) applied.push_back(e);
    }
  }
  return applied;
}

std::vector<OuterExchange> OuterPlan::InFlightAfter(int64_t step) const {
  std::vector<OuterExchange> flying;
  for (int64_t begun = std::max<int64_t>(1, step - overlap_ + 1); begun <= step; ++begun) {
    for (const OuterExchange& e : BegunAfter(begun)) {
      if (e.applied > step) flying.push_back(e);
    }
  }
  return flying;
}

int64_t OuterPlan::Exchanges(int64_t fragment, int64_t done) const {
  if (gradients_) return fragment == 0 ? steps_ - done : 0;
  if (!exchanges()) return 0;
  if (meets_ == Meets::kLevels) {
    const int64_t apart = fragment == 0 ? 1 : global_every_;
    const auto until = [&](int64_t step) {
      const bool last_is_extra = step >= steps_ && rounds() % apart != 0;
      return RoundsBy(step) / apart + (last_is_extra ? 1 : 0);
    };
    return until(steps_) - until(done);
  }
  // Fragment f is begun after steps that are f H / P modulo H, and once more after the last.
  const int64_t phase = fragment * (inner_steps_ / fragments_);
  const auto until = [&](int64_t step) {
    const int64_t regular = step < phase ? 0 : (step - phase) / inner_steps_ + (phase > 0 ? 1 : 0);
    const bool last_is_regular = steps_ % inner_steps_ == phase;
    return regular + (step >= steps_ && !last_is_regular ? 1 : 0);
  };
  return until(steps_) - until(done);
}

int64_t OuterPlan::AllExchanges(int64_t done) const {
  int64_t all = 0;
  for (int64_t f = 0; f < fragments(); ++f) all += Exchanges(f, done);
  return all;
}

// The groups in an order that is drawn, two by two; of an odd number one stays alone.
std::vector<std::vector<int>> OuterPlan::Pairs(const OuterExchange& exchange) const {
  std::vector<std::pair<uint64_t, int>> drawn;
  for (int g = 0; g < static_cast<int>(groups_); ++g) {
    drawn.emplace_back(
        FoldSeed({seed_, kPairsNoise, static_cast<uint64_t>(exchange.begun),
                  static_cast<uint64_t>(exchange.fragment), static_cast<uint64_t>(g)}),
        g);
  }
  std::sort(drawn.begin(), drawn.end());
  std::vector<std::vector<int>> pairs;
  for (size_t i = 0; i < drawn.size(); i += 2) {
    pairs.push_back({drawn[i].second});
    if (i + 1 < drawn.size()) pairs.back().push_back(drawn[i + 1].second);
    std::sort(pairs.back().begin(), pairs.back().end());
  }
  return pairs;
}

std::vector<std::vector<int>> OuterPlan::Meetings(const OuterExchange& exchange) const {
  // After the last step all meet, so that they end equal.
  if (meets_ == Meets::kPairs && exchange.begun < steps_) return Pairs(exchange);
  std::vector<std::vector<int>> meetings(1);
  const bool levels = meets_ == Meets::kLevels;
  if (levels)
    meetings.resize(static_cast<size_t>(exchange.fragment == 0 ? groups_ / cluster_ : cluster_));
  for (int g = 0; g < static_cast<int>(groups_); ++g) {
    const int64_t at = !levels ? 0 : exchange.fragment == 0 ? g / cluster_ : g % cluster_;
    meetings[static_cast<size_t>(at)].push_back(g);
  }
  return meetings;
}

std::vector<int> OuterPlan::MembersOf(const OuterExchange& exchange, int group) const {
  for (const std::vector<int>& meeting : Meetings(exchange)) {
    if (std::find(meeting.begin(), meeting.end(), group) != meeting.end()) return meeting;
  }
  return {group};
}

int64_t OuterPlan::MeetingSize(int64_t fragment) const {
  if (meets_ == Meets::kLevels) return fragment == 0 ? cluster_ : groups_ / cluster_;
  return groups_;  // of pairs, too: after the last step
}

int64_t OuterPlan::Exchanges(int64_t fragment, int64_t done, int from, int to) const {
  if (meets_ == Meets::kAll) return Exchanges(fragment, done);
  int64_t met = 0;
  if (meets_ == Meets::kLevels) {
    const std::vector<int> members = MembersOf({steps_, steps_, fragment}, from);
    const bool both = std::find(members.begin(), members.end(), to) != members.end();
    return both ? Exchanges(fragment, done) : 0;
  }
  for (int64_t round = RoundsBy(done) + 1; round <= rounds(); ++round) {
    for (const OuterExchange& e : BegunAfter(LastStepOf(round))) {
      const std::vector<int> members = MembersOf(e, from);
      met += std::find(members.begin(), members.end(), to) != members.end();
    }
  }
  return met;
}

}  // namespace longhaul
