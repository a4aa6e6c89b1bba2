#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "experiments/trace/trace_span.h"

namespace longhaul {

// Spans, sorted as Trace::Spans sorts them, in the JSON of Chrome's traces, which ui.perfetto.dev
// and chrome://tracing open: a process for each rank, a thread for each of its lanes and links.
// Times are in microseconds from the first span on. What overlaps on one lane (messages that follow
// each other before the first is there, two coders) is drawn on a second thread of the same name.
// `process_names` [ranks]; `about`: what stands in its "otherData".
std::string ChromeTrace(const std::vector<TraceSpan>& spans,
                        const std::vector<std::string>& process_names,
                        const std::vector<std::pair<std::string, std::string>>& about);

}  // namespace longhaul
