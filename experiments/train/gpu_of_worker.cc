#include "experiments/train/gpu_of_worker.h"

#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "pp_group/c10d_status.h"
#include "pp_group/device_check.h"
#include "pp_group/device_name.h"
#include "pp_group/memory/memory_limit.h"

namespace longhaul {

std::optional<RanksHere> RanksHereFromEnvironment() {
  const char *local_rank = std::getenv("LOCAL_RANK"), *count = std::getenv("LOCAL_WORLD_SIZE");
  int own = 0, all = 0;
  if (local_rank == nullptr || count == nullptr || !absl::SimpleAtoi(local_rank, &own) ||
      !absl::SimpleAtoi(count, &all) || own < 0 || own >= all) {
    return std::nullopt;
  }
  return RanksHere{own, all};
}

// One rank a machine: several such machines may be nodes of a lab on one.
int GpuNumber(const std::optional<RanksHere>& here, int rank) {
  return here && here->count > 1 ? here->own : rank;
}

RunSpec OnGpu(RunSpec spec, int number) {
  if (spec.train.device != kGpuOfRank) return spec;
  if (const int gpus = GpuCount(); gpus > 0) {
    spec.train.device = DeviceOfRank(spec.train.device, number, gpus);
  }
  return spec;
}

std::optional<int> GpuOf(const RunSpec& own) {
  return own.compute ? std::nullopt : GpuOfRank(own.train.device, 0, 1);
}

std::string SharedBy(const std::string& device, const std::optional<RanksHere>& here, int gpus) {
  if (!here) return "unknown: LOCAL_RANK and LOCAL_WORLD_SIZE are not set";
  const int ranks = RanksOfOneGpu(device, here->count, gpus);
  if (ranks == 1) return "1 rank";
  return absl::StrCat(ranks, " ranks: they take turns, and their times are no evidence");
}

absl::Status TakeGpu(const RunSpec& own, int rank, int64_t bytes, EventSink& sink) {
  const std::optional<int> gpu = GpuOf(own);
  if (!gpu) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string limit, LimitGpuMemory(*gpu, bytes));
  const auto fact = [&sink](const std::string& key, const std::string& value) {
    sink.Emit({{"event", "fact"}, {"key", key}, {"value", value}});
  };
  fact(absl::StrCat("gpu_of_rank_", rank), absl::StrCat("cuda:", *gpu));
  fact(absl::StrCat("gpu_memory_of_rank_", rank), limit);
  return StatusFromTorch(absl::StrCat("ask cuda:", *gpu, " for its kernel of attention"),
                         [&] { fact("attention", AttentionKernelOf(own.model, own.train)); });
}

}  // namespace longhaul
