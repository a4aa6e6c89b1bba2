#pragma once

#include "experiments/spec/spec.h"
#include "pp_group/models/model_spec.h"

namespace longhaul {

// The model of a run and what its stages compute on, as pp_group takes them.
ModelSpec ToModelSpec(const RunSpec& spec);
ComputeSpec ToComputeSpec(const RunSpec& spec);

}  // namespace longhaul
