#include "experiments/train/fault_event.h"

#include "experiments/record/row_json.h"

namespace longhaul {

void EmitFault(const Fault& fault, int64_t step, const std::string& said, EventSink& sink) {
  sink.Emit(EventOf("fault", FaultRow{.number = 0,
                                      .step = step,
                                      .what = std::string(ToString(fault.what)),
                                      .place = ToString(fault.where),
                                      .group_index = fault.where.group,
                                      .said = said.empty() && fault.planned ? kByPlan : said}));
}

}  // namespace longhaul
