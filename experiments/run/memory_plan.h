#pragma once

#include <cstdint>

#include "experiments/spec/spec.h"

namespace longhaul {

// What a run will take, known before anything of it exists. Letters as in spec.h. Counted per rank:
// parameters, gradients and AdamW's moments; the outer step's copies and frames; activations of as
// many micro-batches as the schedule keeps; buffers of the boundaries and their frames; scratch.
// Then torch itself, once per process, and the corpus. Peak resident memory was within a factor of
// kMemoryPlanFactor of it, each way, in the sizes that tests measure.
struct ResourcePlan {
  int processes;
  int64_t bytes;         // of all processes together
  int64_t worker_bytes;  // of the largest process
  int64_t device_bytes;  // of all processes together, on the GPU that they share; 0 on the CPU
  int64_t threads;       // of all processes together
};
inline constexpr double kMemoryPlanFactor = 1.4;

// `corpus_bytes`: what a process keeps of the data.
ResourcePlan PlanResources(const RunSpec& spec, int64_t corpus_bytes);

}  // namespace longhaul
