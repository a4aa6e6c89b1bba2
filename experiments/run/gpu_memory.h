#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "experiments/run/memory_plan.h"
#include "pp_group/device_check.h"

namespace longhaul {

// What runs at a time would take of one GPU.
struct GpuLoad {
  int workers = 0;
  int64_t bytes = 0;  // of their contexts and limits; at most the largest int64_t
};

// By GPU of a machine that has `gpus` of them.
std::vector<GpuLoad> LoadOfGpus(const std::vector<ResourcePlan>& plans, int gpus);

// ResourceExhausted in one line that names the first GPU on which `plans` together would take more
// than it has free, with how many workers share it. `gpus`: the machine's, in their order.
absl::Status CheckGpuMemory(const std::vector<ResourcePlan>& plans,
                            const std::vector<GpuMemory>& gpus);

// Of this machine, as they are now; asks each of them (MemoryOfGpu).
std::vector<GpuMemory> MemoryOfGpus();

// What of the environment a worker on that device needs, as "NAME=value": which GPUs there are and
// in what order, where their driver's libraries are, and what torch's allocator was told.
std::vector<std::string> GpuVariables(const std::string& device);

}  // namespace longhaul
