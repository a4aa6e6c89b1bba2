#pragma once

#include "planning/simulator/scenario.h"

namespace longhaul::simulator {

// What the event engine that runs and their predictions use (pp_group/schedule) says of a scenario,
// beside the formulas' T_step and T_sync: the same seconds of compute, bits, rates and round trips, as
// a run of this program would spend them. Seconds.
struct EngineTimes {
  // A step of 1F1B: passes one third forward and two thirds backward, both directions of a link at
  // once, transfer under way while stages compute. Of one stage: T_step.
  double step;
  // Every stage sends what it changed, V_b/S, to its peer in every other group (flat: every node V_b to
  // every other) over its own access line, all of them at once. Headers of frames and TCP's slow start
  // included. 0: nobody to send to.
  double sync;
};

// NaN where the engine has no such run: more than 1024 stages or micro-batches.
EngineTimes EngineTimesOf(const Scenario& scenario, const Outcome& outcome);

}  // namespace longhaul::simulator
