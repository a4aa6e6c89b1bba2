#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "experiments/record/record_rows.h"
#include "experiments/trace/trace_span.h"
#include "pp_group/outer/outer_plan.h"
#include "pp_group/schedule/training_clock.h"

namespace longhaul {

// What a simulated clock's ranks and links did in its last step, as spans of a trace. Seconds count from
// the clock's start.
int64_t SpanNanoseconds(double s);

// What ranks did since they were free at `before`, where that was anything; both [G * P].
void AddSince(const std::vector<double>& before, const std::vector<double>& now, TraceLane lane,
              const std::string& what, const OuterExchange& exchange,
              std::vector<TraceSpan>* trace);

// Bytes of a message, by direction, from and to: ranks of the run.
using MessageSizes = std::map<std::tuple<Direction, int64_t, int64_t>, double>;
// Actions, waits and messages of all groups, whose ranks were free at `begun`.
void AddPipelines(const TrainingClock& clock, const std::vector<double>& begun,
                  const MessageSizes& bytes, std::vector<TraceSpan>* trace);

}  // namespace longhaul
