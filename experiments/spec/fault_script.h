#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "experiments/spec/spec_line.h"
#include "netem/topology/toml_tree.h"

namespace longhaul {

// What goes wrong in a run, by step, so that the same script strikes at the same place of every
// training: over shaped links, in one process, and in simulated time. A step is a group's own inner
// step, counted from 1; a fault strikes before the step's first action unless `during` says when.
enum class FaultKind {
  kKill,       // SIGKILL; the group loses all since its last round, is started anew and rejoins
  kStop,       // SIGSTOP, for for_s seconds; without it for ever
  kSlow,       // every step takes `factor` times as long, for for_steps; without it to the end
  kLinkDown,   // the link carries nothing, for for_s or for_steps
  kLinkRate,   // the link's rate becomes rate_mbit, for for_s or for_steps; without to the end
  kLinkDelay,  // the link's one-way delay becomes delay_ms, likewise
  kDiskFull,   // the next checkpoint of the place cannot be written
  kPoison,     // the group's parameters are multiplied by `factor` before its round ends; nan: NaN
  kLeave,      // the group ends in order before its step, and says so
  kJoin,       // a group that is not there comes, and trains from the next round on
};
std::string_view ToString(FaultKind kind);

// The part of a step in which a kill strikes: the first such moment at or after the step.
// kTransfer: of a state, through the swarm, after the outer step that ends the step's round; the
// group gives or takes it. Where nobody joins there, it never strikes.
enum class FaultMoment { kBegin, kForward, kBackward, kOuter, kCheckpoint, kTransfer };
std::string_view ToString(FaultMoment moment);

struct FaultPlace {
  enum class Kind { kWorker, kGroup, kAnyGroup, kLink, kLab };
  Kind kind = Kind::kGroup;
  int64_t group = -1, stage = -1;  // kWorker; kGroup: stage -1
  int64_t from = -1, to = -1;      // kLink: ranks, group * S + stage
  bool both_ways = false;          // kLink
  friend bool operator==(const FaultPlace&, const FaultPlace&) = default;
};
// "group 1 stage 0", "group 1", "any group", "link 0 > 3" (one way), "link 0 - 3", "lab".
std::string ToString(const FaultPlace& place);

// What the record says of a leave or join that outer.schedule stands for.
constexpr char kByPlan[] = "outer.schedule";

// One [[fault]] of a spec. Fields of other kinds stay at their defaults.
struct Fault {
  FaultKind what = FaultKind::kKill;
  FaultPlace where = {};
  int64_t at_step = 0;  // 1 to the run's steps; 0: drawn, see below
  // Drawn from the run's seed: gaps between strikes are exponential with this mean, in steps; each
  // group has a clock of its own where the place is "any group". 0: at_step says it.
  double mean_time_between_steps = 0;
  FaultMoment during = FaultMoment::kBegin;
  int64_t for_steps = 0;     // ends before step at_step + for_steps; 0: not given
  double for_s = 0;          // seconds; 0: not given
  double factor = 1;         // kSlow: > 1; kPoison: any number
  double rate_mbit = 0;      // kLinkRate
  double delay_ms = 0;       // kLinkDelay, one way
  bool planned = false;      // a leave or join of outer.schedule, not of a [[fault]]: kByPlan
  std::string written = {};  // "demo.toml:12", for messages
  friend bool operator==(const Fault& a, const Fault& b);  // all but `written`; NaN equals NaN
};

// What a script is checked against and drawn for.
struct FaultBounds {
  int64_t steps;   // of the run, inner steps
  int64_t groups;  // G
  int64_t stages;  // S
};

// The array of tables `fault` of a spec; none: empty. InvalidArgument with file and line: an
// unknown kind, key or place, a group, stage or rank that is not there, a step beyond the run, a
// field that does not go with the kind or is missing, numbers that mean nothing.
absl::StatusOr<std::vector<Fault>> ReadFaults(const TomlValue& root, const FaultBounds& bounds);

// [[fault]] tables that ReadFaults reads back to equal values.
SpecLines FaultLines(const std::vector<Fault>& faults);

// The script with its draws made: every fault has an at_step and no mean, "any group" is a group.
// By step, then in the order of the script. Equal (faults, bounds, seed) give equal scripts on
// every host of one C library. A strike on a group that is not there at that time is nobody's:
// whoever runs the script skips it.
std::vector<Fault> DrawFaults(const std::vector<Fault>& faults, const FaultBounds& bounds,
                              uint64_t seed);

// The lab does it, which every rank that begins the step asks: links, the lab itself, a group that
// joins.
bool IsOfLab(const Fault& fault);

// "step 40: kill, group 1 stage 0, backward": for records and figures.
std::string Describe(const Fault& fault);

}  // namespace longhaul
