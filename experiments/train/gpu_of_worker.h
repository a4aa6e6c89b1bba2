#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "experiments/spec/spec.h"
#include "experiments/train/event_stream.h"

namespace longhaul {

// The ranks of this machine, which share its GPUs, and this process's number among them.
struct RanksHere {
  int own, count;
};
// From LOCAL_RANK and LOCAL_WORLD_SIZE, as torchrun sets them. nullopt: they are not set.
std::optional<RanksHere> RanksHereFromEnvironment();

// Which of its machine's GPUs a rank takes, modulo their number: by its number on that machine,
// because a launcher may deal ranks out to machines in turn; by its rank where `here` does not tell.
int GpuNumber(const std::optional<RanksHere>& here, int rank);

// The run as the process of that GPU trains it: train.device = "cuda:*" has become the GPU of
// `number`. Where this machine has no GPU it stays, and CheckTraining says so.
RunSpec OnGpu(RunSpec spec, int number);

// The GPU of this process's stages, by that. nullopt: none computes.
std::optional<int> GpuOf(const RunSpec& own);

// Limits this process to `bytes` of its GPU and tells as facts which GPU it is and the limit.
// Before the first tensor there; nothing where no GPU computes.
absl::Status TakeGpu(const RunSpec& own, int rank, int64_t bytes, EventSink& sink);

// The fact "gpu_shared_by": how many ranks of a machine with `gpus` GPUs share one.
std::string SharedBy(const std::string& device, const std::optional<RanksHere>& here, int gpus);

}  // namespace longhaul
