#pragma once

#include <cstdint>
#include <string>

#include "experiments/spec/fault_script.h"
#include "experiments/train/event_stream.h"

namespace longhaul {

// A fault that struck, as the event that says so; `said`: what came of it. Of one that the plan of
// groups stands for, without more to say: kByPlan.
void EmitFault(const Fault& fault, int64_t step, const std::string& said, EventSink& sink);

}  // namespace longhaul
