#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/spec/spec.h"

namespace longhaul {

// What a run will take, known before anything of it exists. Letters as in spec.h. Counted per rank:
// parameters, gradients and AdamW's moments; the outer step's copies and frames; activations of as
// many micro-batches as the schedule keeps, and what one of them takes while it runs; tensors of
// the boundaries, their frames and codec states. Then what a process has anyway. Pages of files
// (libraries, token files) are not counted: the kernel may drop them, and processes share them.
// What runs took was within a factor of kMemoryPlanFactor of it, each way, in the sizes that tests
// measure (docs/engines.md has them).
struct ResourcePlan {
  int processes;
  int64_t bytes;         // of all processes together
  int64_t worker_bytes;  // of the largest process
  int64_t threads;       // of all processes together
  std::string device;    // train.device
  // On a GPU: what torch's allocator may take there in each process, in the order of ranks. Empty
  // where none computes. What is predicted with room for what is not: that factor, holes between
  // tensors, libraries' workspaces. A process is held to it (pp_group/memory/memory_limit.h).
  std::vector<int64_t> device_bytes;
};
inline constexpr double kMemoryPlanFactor = 1.1;

// Of each process on a GPU beside that: its context, with the kernels that it has loaded. Measured on
// an H200: 700 to 746 MB.
inline constexpr int64_t kGpuContextBytes = 750'000'000;

// Measured: what a process of a run has to itself in the host's memory before its first tensor; of
// one on the CPU less where this torch is not a CUDA build.
int64_t ProcessBytes(std::string_view device);

ResourcePlan PlanResources(const RunSpec& spec);
// Of the largest rank, as if each were a process of a machine that is not here, less what a process
// has anyway.
inline int64_t RankBytes(RunSpec spec) {
  spec.net.transport = "ucx";
  return PlanResources(spec).worker_bytes - ProcessBytes(spec.train.device);
}
// Of device_bytes; 0 where no GPU computes.
int64_t GpuBytesOfRank(const RunSpec& spec, int rank);

}  // namespace longhaul
