#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "pp_group/schedule/makespan.h"

namespace longhaul {

// One step of a pipeline as its ranks run it, and what it costs. Pure arithmetic.
struct SchedulePicture {
  std::string text;  // a line a rank, and what its letters mean
  std::string svg;   // a whole file; the same times, drawn
};

// `title` heads the drawing, as it is: no markup. Text is `columns` characters wide at most, plus the ranks' names.
// Errors: Timeline's.
absl::StatusOr<SchedulePicture> DrawSchedule(const PipelineProgram& program,
                                             const PipelineCosts& costs, const std::string& title,
                                             int columns = 100);

// Forward one unit, backward two (I and W one each) of every stage, links that take no time.
PipelineCosts UnitCosts(const PipelineProgram& program);

}  // namespace longhaul
