#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace longhaul {

// How G groups become one training, as a table [outer] gives it: an algorithm of the table in
// outer_rules.h, and its figures. What is not given is the algorithm's, or none.
struct OuterSpec {
  // H; 0: groups never meet apart from gradients (G must be 1, or the algorithm one that exchanges
  // gradients).
  int64_t inner_steps;
  double lr = 0.7;
  double momentum = 0.9;       // Nesterov
  std::string codec = "none";  // of the outer delta or the gradients, e.g. "int4-b64-h64+ef"
  std::string algorithm = "diloco";
  // P, divides H: parts of the parameters that are exchanged one by one.
  std::optional<int64_t> fragments = {};
  // V <= H / P: inner steps between an exchange's begin and its result.
  std::optional<int64_t> overlap_steps = {};
  std::optional<double> mix =
      {};  // alpha: the share that local parameters keep when a result comes
  // The average of an element is over all that meet ("all", or empty), or over those that sent it
  // ("senders"): whose decoded value is not 0.
  std::string mean = {};
  // Of levels: groups g of a cluster have one g / cluster_groups; clusters meet each `global_every`
  // rounds, with a codec of their own ("": the other).
  std::optional<int64_t> cluster_groups = {}, global_every = {};
  std::string global_codec = {};
  // Of gradients: in so many first steps they cross otherwise (CodecsOf).
  std::optional<int64_t> warmup_steps = {};
  // Of outer steps: how the rate goes on from `lr` after so many rounds in which it grows to it.
  // "constant" (or empty), "linear" or "cosine": towards 0, which the round after the last would have.
  std::string lr_schedule = {};
  std::optional<int64_t> lr_warmup_rounds = {};

  // What is taken.
  int64_t parts() const { return fragments.value_or(1); }
  int64_t overlap() const;
  double kept() const;  // alpha
  int64_t warmup() const { return warmup_steps.value_or(0); }
  bool steady() const { return lr_schedule.empty() || lr_schedule == "constant"; }
  int64_t rate_warmup() const { return lr_warmup_rounds.value_or(0); }
};

// A codec up to and with a step.
struct CodecUntil {
  int64_t step;
  std::string codec;
  friend bool operator==(const CodecUntil&, const CodecUntil&) = default;
};
// What outer deltas or gradients cross in, by step; the last until the end.
std::vector<CodecUntil> CodecsOf(const OuterSpec& spec);

bool AllMeet(const std::string& algorithm);  // in every exchange

// Every exchange is between all groups and over all parameters, applied where it is begun, and nothing local is kept: the
// groups are equal after it.
inline bool WholeRounds(const OuterSpec& spec) {
  return spec.parts() == 1 && spec.overlap() == 0 && spec.kept() == 0 && AllMeet(spec.algorithm);
}

// One exchange between the groups.
struct OuterExchange {
  int64_t begun;     // after this inner step (1-based) what a group has is encoded and sent
  int64_t applied;   // after this one, at least `begun`, the average changes parameters
  int64_t fragment;  // or, of levels, the level
  friend bool operator==(const OuterExchange&, const OuterExchange&) = default;
};

// When groups meet and over what, as data: the one place that trainer, predicted bytes, memory,
// faults, simulated time and resume ask. Pure; inner steps count from 1.
//
// A round is the H inner steps between two meetings over everything (of gradients: one step); round
// r, from 1, ends after step min(r H, steps). Within a round the fragments f = 1, 2, ..., 0 are
// begun after every H / P steps, each applied V steps later, at most after the last step. After the
// run's last step all fragments are exchanged and applied, so that groups end equal. At most one
// exchange is on its way.
//
// Of levels there are no fragments: 0 is the exchange within clusters, after every round, 1 the one
// between them, after every `global_every` rounds and the last, right behind the other.
class OuterPlan {
 public:
  // Who meets follows from `groups` and `seed`; nothing else does.
  OuterPlan(const OuterSpec& spec, int64_t steps, int64_t groups = 1, uint64_t seed = 0);

  // Gradients are averaged in every step before the inner update; there are no exchanges then.
  bool gradients() const { return gradients_; }
  bool exchanges() const { return inner_steps_ > 0 && !gradients_; }
  bool meets() const { return gradients_ || exchanges(); }
  // Whether all groups have equal parameters after `step`.
  bool AgreedAfter(int64_t step) const {
    return !exchanges() || (whole_rounds_ ? EndsRound(step) : step == steps_);
  }
  int64_t fragments() const { return meets_ == Meets::kLevels ? 2 : fragments_; }
  int64_t steps() const { return steps_; }

  int64_t round_steps() const { return round_; }
  int64_t rounds() const { return RoundOf(steps_); }
  int64_t RoundOf(int64_t step) const { return (step + round_ - 1) / round_; }
  int64_t FirstStepOf(int64_t round) const { return (round - 1) * round_ + 1; }
  int64_t LastStepOf(int64_t round) const;
  // The last step of the step's round.
  int64_t EndOfRound(int64_t step) const { return LastStepOf(RoundOf(step)); }
  bool EndsRound(int64_t step) const { return EndOfRound(step) == step; }
  int64_t RoundsBy(int64_t step) const;  // that end at or before `step`
  // The share of the outer rate that what is applied after `step` counts with.
  double RateShare(int64_t step) const;

  // After `step`. Where an exchange is due and another begins, all values of the one are there, the
  // other is begun from what inner steps have left, then the one is applied.
  std::vector<OuterExchange> BegunAfter(int64_t step) const;
  std::vector<OuterExchange> AppliedAfter(int64_t step) const;
  // Begun at or before `step` and applied later.
  std::vector<OuterExchange> InFlightAfter(int64_t step) const;
  // How often a fragment crosses in the steps after `done`; of gradients: the steps.
  int64_t Exchanges(int64_t fragment, int64_t done = 0) const;
  int64_t AllExchanges(int64_t done = 0) const;  // of all fragments

  // Every exchange is between all groups.
  bool all_meet() const { return meets_ == Meets::kAll; }
  // Which groups meet each other in an exchange: each is in one meeting, ascending.
  std::vector<std::vector<int>> Meetings(const OuterExchange& exchange) const;
  std::vector<int> MembersOf(const OuterExchange& exchange, int group) const;
  // The most groups of a meeting of the fragment.
  int64_t MeetingSize(int64_t fragment) const;
  // What `from` sends `to`: exchanges of the fragment after `done` in which both meet.
  int64_t Exchanges(int64_t fragment, int64_t done, int from, int to) const;

 private:
  enum class Meets { kAll, kPairs, kLevels };
  std::vector<std::vector<int>> Pairs(const OuterExchange& exchange) const;

  int64_t steps_, inner_steps_, fragments_, overlap_;
  int64_t round_;
  bool gradients_, whole_rounds_;
  Meets meets_ = Meets::kAll;
  int64_t groups_, cluster_, global_every_;
  uint64_t seed_;
  std::string lr_schedule_;
  int64_t lr_warmup_;
};

}  // namespace longhaul
