#pragma once

#include <cstdint>

#include "experiments/spec/spec.h"

namespace longhaul {

// What a run will take, known before anything of it exists. Letters as in spec.h. Counted per rank:
// parameters, gradients and AdamW's moments; the outer step's copies and frames; activations of as
// many micro-batches as the schedule keeps, and what one of them takes while it runs; tensors of
// the boundaries, their frames and codec states. Then what a process has anyway. Pages of files
// (libraries, token files) are not counted: the kernel may drop them, and processes share them.
// What runs took was within a factor of kMemoryPlanFactor of it, each way, in the sizes that tests
// measure (docs/models.md has them).
struct ResourcePlan {
  int processes;
  int64_t bytes;         // of all processes together
  int64_t worker_bytes;  // of the largest process
  int64_t device_bytes;  // of all processes together, on the GPU that they share; 0 on the CPU
  int64_t threads;       // of all processes together
};
inline constexpr double kMemoryPlanFactor = 1.1;

ResourcePlan PlanResources(const RunSpec& spec);

}  // namespace longhaul
