#pragma once

#include <cstdint>

namespace longhaul {

// Memory of tensors on the host that is used again instead of given back: a training allocates the
// same sizes in every micro-batch, and malloc answers with holes between them (a third of a Llama's
// activations) or, from mapped memory, with page faults. What the process holds for tensors never
// exceeds the most that they have taken at once: before new memory would, memory that lies idle is
// unmapped. Tensors below 64 KiB are malloc's.
//
// For the whole process, once and for all. Thread safe.
void UseTensorMemory();

// Of tensors of 64 KiB and more since UseTensorMemory: their bytes now, the most there were at
// once, and what is mapped for them now, in whole pages of their size classes.
struct TensorMemoryUse {
  int64_t used = 0, peak = 0, mapped = 0;
};
TensorMemoryUse TensorMemory();

}  // namespace longhaul
