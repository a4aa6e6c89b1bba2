#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "experiments/spec/spec.h"
#include "experiments/train/branching.h"
#include "experiments/train/event_stream.h"

namespace longhaul {

// The whole run, S x G ranks, in the calling thread over the loopback transport: same frames,
// codecs and arithmetic as over shaped links, so the same losses to the last bit, and no network.
// Everything is emitted to `sink`. Errors as RunLoop. SIGTERM must be blocked: with a checkpoint
// directory, one that is pending ends the run after its step, with a checkpoint (Cancelled).
// `branching`: what it begins from and leaves for others. `gpu_bytes`: what it may take of its GPU (memory_plan.h).
absl::Status RunInProcess(const RunSpec& spec, const std::string& checkpoint_directory,
                          const Branching& branching, int64_t gpu_bytes, FdEventSink& sink);

}  // namespace longhaul
