#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "experiments/record/record_rows.h"
#include "experiments/run/memory_plan.h"
#include "experiments/spec/spec.h"
#include "pp_group/device_check.h"

namespace longhaul {

// What is left for new processes: of the machine, or of the strictest control group around this
// process. `by` names what sets the limit, for messages.
struct Remaining {
  int64_t amount;
  std::string by;
};

// Files are read below `root`: "" is the machine itself, tests bring their own. A file that is not
// there sets no limit.
Remaining RemainingMemory(const std::string& root = "");   // bytes; swap does not count
Remaining RemainingThreads(const std::string& root = "");  // processes and threads

// Cores that a run keeps busy: its threads, in each of its S x G processes over shaped links. One
// for its codecs where its compute is injected.
int64_t CoresNeeded(const RunSpec& spec);
int64_t CoresNeeded(const RunRow& run);

// Cores that this process may use (affinity, cpusets); at least 1.
int64_t CoresAllowed();

// Cores that living processes of `host` keep busy with these runs.
int64_t CoresBusy(const std::vector<RunRow>& runs, const std::string& host);

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
