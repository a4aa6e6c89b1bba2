#include "experiments/run/gpu_memory.h"

#include <cstdlib>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "pp_group/device_name.h"

namespace longhaul {
namespace {

// Neither is negative.
int64_t SumOrMost(int64_t a, int64_t b) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return a > kMost - b ? kMost : a + b;
}

double InGb(int64_t bytes) { return static_cast<double>(bytes) / 1e9; }

}  // namespace

std::vector<GpuLoad> LoadOfGpus(const std::vector<ResourcePlan>& plans, int gpus) {
  std::vector<GpuLoad> loads(static_cast<size_t>(gpus));
  for (const ResourcePlan& plan : plans) {
    for (size_t rank = 0; rank < plan.device_bytes.size(); ++rank) {
      const std::optional<int> gpu = GpuOfRank(plan.device, static_cast<int>(rank), gpus);
      if (!gpu || *gpu >= gpus) continue;
      GpuLoad& load = loads[static_cast<size_t>(*gpu)];
      ++load.workers;
      load.bytes = SumOrMost(load.bytes, SumOrMost(plan.device_bytes[rank], kGpuContextBytes));
    }
  }
  return loads;
}

absl::Status CheckGpuMemory(const std::vector<ResourcePlan>& plans,
                            const std::vector<GpuMemory>& gpus) {
  const std::vector<GpuLoad> loads = LoadOfGpus(plans, static_cast<int>(gpus.size()));
  for (size_t gpu = 0; gpu < gpus.size(); ++gpu) {
    const GpuLoad& load = loads[gpu];
    if (load.bytes <= gpus[gpu].free_bytes) continue;
    return absl::ResourceExhaustedError(fmt::format(
        "not enough memory on cuda:{}: {} would take {:.3g} GB of it, and {:.3g} of {:.3g} GB are "
        "free; lower model.width, train.batch_rows, schedule.stages or outer.groups, set "
        "train.recompute = true{}",
        gpu, load.workers == 1 ? "1 worker" : fmt::format("{} workers", load.workers),
        InGb(load.bytes), InGb(gpus[gpu].free_bytes), InGb(gpus[gpu].total_bytes),
        gpus.size() > 1 ? ", or spread the workers over the GPUs (train.device = \"cuda:*\")"
                        : ""));
  }
  return absl::OkStatus();
}

std::vector<GpuMemory> MemoryOfGpus() {
  std::vector<GpuMemory> gpus;
  for (int gpu = 0; gpu < GpuCount(); ++gpu) gpus.push_back(MemoryOfGpu(gpu));
  return gpus;
}

std::vector<std::string> GpuVariables(const std::string& device) {
  std::vector<std::string> variables;
  if (device == "cpu") return variables;
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "LD_LIBRARY_PATH",
                           "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
    const char* value = std::getenv(name);
    if (value != nullptr) variables.push_back(fmt::format("{}={}", name, value));
  }
  return variables;
}

}  // namespace longhaul
