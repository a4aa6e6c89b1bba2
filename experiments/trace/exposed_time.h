#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/trace/trace_span.h"

namespace longhaul {

// How much of the exchanges between groups was not hidden behind compute: means over exchanges, each
// as the rank has it that it cost least in the group that it cost most. (What the other ranks of a
// group wait holds bubbles of its pipeline, in which they would have stood without an exchange too.)
struct ExposedTime {
  int64_t exchanges = 0;
  // From its begin until all that was sent to the rank was there, and its own had left; then until
  // the ranks of the group had told each other norms.
  double took_s = 0;
  double waited_s = 0;  // the rank stood still for it
  double worked_s = 0;  // encoding, decoding, applying: in place of the training's own compute
  double step_s = 0;    // of a rank, without what exchanges cost
  double exposed_s() const { return waited_s + worked_s; }
  double share() const { return step_s > 0 ? exposed_s() / step_s : 0; }
};

// Of these exchanges, each the step after which it was begun and its fragment, which lie whole in
// the trace; groups have so many ranks. nullopt: none of them is there.
std::optional<ExposedTime> ExposedTimeOf(const std::vector<TraceSpan>& spans,
                                         const std::vector<std::pair<int64_t, int64_t>>& exchanges,
                                         int ranks_of_group);

// "an exchange between groups takes 0.834 s; ...", one line.
std::string TextOf(const ExposedTime& exposed);

}  // namespace longhaul
