#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace longhaul {

// Torch-free. A process takes no more of a GPU than its share: what it asks for beyond fails there,
// and not in whoever shares the GPU with it.
struct MemoryLimit {
  std::string settings;  // for torch's allocator, the user's own among them; empty: nothing to tell
  std::string said;      // for the record: the limit, or why there is none
};

// What torch's allocator of a GPU says of itself.
struct AllocatorWords {
  std::string torch;            // its version
  bool knows_fraction = false;  // has the word that limits a process
  std::string settings;         // the user's: of PYTORCH_ALLOC_CONF and PYTORCH_CUDA_ALLOC_CONF
};

// A limit that the user has set himself stands.
MemoryLimit MemoryLimitOf(int64_t bytes, int64_t total_bytes, const AllocatorWords& words);

// Limits torch's allocator in this process to `bytes` of that GPU; to be called before its first
// tensor there. What was done, for the record. InvalidArgument: settings of the user's that torch
// refuses.
absl::StatusOr<std::string> LimitGpuMemory(int gpu, int64_t bytes);

// The most that torch's allocator has held of that GPU for this process.
int64_t PeakGpuBytes(int gpu);

}  // namespace longhaul
