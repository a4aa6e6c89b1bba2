#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "planning/scale/group_pace.h"
#include "planning/scale/scale_spec.h"

namespace longhaul::scale {

// What leaves a group in its place and costs time: a slower machine, slow workers, and links that are
// down, slower or longer, inside of groups and between them. A fault that lasts for_s seconds lasts as
// many of the group's steps as begin in them.
class Hindrances {
 public:
  // Borrows both.
  Hindrances(const ScaleSpec& spec, GroupPace& pace);

  // False: a fault of another sort. Its step is set.
  bool Add(const Fault& fault);

  // Steps first..last of a group; nullopt: nothing hinders it then.
  std::optional<double> RoundSeconds(int64_t group, int64_t first, int64_t last);

  // When the slowest hindered path has carried its frame of the outer step behind step `last`, which
  // begins at `begin_s`; 0: there is none. `open`: a connection between two groups at that time.
  double ExchangeEnd(int64_t first, int64_t last, double begin_s, const Connection& open);

 private:
  struct Spell {
    int64_t first, last;  // steps
    Hindrance hindrance;
    double down_s = 0;  // once, in its first step
  };
  void AddLink(const Fault& fault, int64_t from, int64_t to);

  const ScaleSpec& spec_;
  GroupPace& pace_;
  std::map<int64_t, std::vector<Spell>> inside_;  // by group
  std::vector<Spell> between_;
};

}  // namespace longhaul::scale
