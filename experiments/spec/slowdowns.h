#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include "experiments/spec/fault_script.h"
#include "pp_group/schedule/clock.h"

namespace longhaul {

// What makes steps or messages longer for a while. Of several the later ones win.
struct Slowdown {
  int64_t stage = -1;  // whose compute; -1: every stage's
  double slow = 1;     // factor on it
  int64_t from = -1,
          to = -1;  // ranks whose link is another: of the group, between groups of the run
  double rate_bit_per_s = 0;    // 0: the profile's
  double one_way_delay_s = -1;  // < 0: the profile's
  // What the link takes for its messages with what hinders it.
  Wire On(Wire wire) const;
  // The same of a group with one stage a rank.
  void On(PipelineCosts* costs) const;
  auto Key() const { return std::tuple(stage, slow, from, to, rate_bit_per_s, one_way_delay_s); }
};

// What a drawn script leaves in its place and makes slow, by step: workers, and links that are down,
// slower or longer, inside of groups and between them. A fault that lasts for_s seconds lasts as many
// of the group's steps as begin in them.
class Slowdowns {
 public:
  // Seconds of a group's step with these, or with none. Called by the constructor alone.
  using StepSeconds = std::function<double(int64_t group, const std::vector<Slowdown>& with)>;
  // Of groups with one stage a rank; `tied_head`: the first and the last one send each other messages.
  Slowdowns(const std::vector<Fault>& drawn, int64_t stages, bool tied_head,
            const StepSeconds& step_s);

  struct Spell {
    int64_t first, last;  // steps
    Slowdown slowdown = {};
    double down_s = 0;  // nothing is carried for so long from the beginning of the first step on
  };
  // All of a group's steps.
  void Slow(int64_t group, double factor);

  const std::vector<Spell>& Inside(int64_t group) const;
  const std::vector<Spell>& between() const { return between_; }
  // What holds in a group's step, but links that are down.
  std::vector<Slowdown> InStep(int64_t group, int64_t step) const;

 private:
  void AddLink(const Fault& fault, int64_t from, int64_t to, const StepSeconds& step_s);

  const int64_t stages_;
  const bool tied_head_;
  std::map<int64_t, std::vector<Spell>> inside_;  // by group
  std::vector<Spell> between_;
};

}  // namespace longhaul
