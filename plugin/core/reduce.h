#pragma once

#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "plugin/core/group.h"

namespace longhaul {

// InvalidArgument where the operation makes no sense for the type (bitwise on floats, average of
// integers, order of complex numbers).
absl::Status CheckReduce(ElementType type, ReduceOp op);

// out[i] = sources[0][i] op sources[1][i] op ..., strictly in that order, so that equal sources
// give equal bits wherever it runs. bf16 and f16 accumulate in f32 and round once (RNE); integers
// wrap; bool is logical. `out` may be one of the sources; `count` elements each, any alignment.
// CheckReduce(type, op) must hold.
void ReduceInOrder(ElementType type, ReduceOp op, std::span<const std::byte* const> sources,
                   size_t count, std::byte* out);

// out[i] = (sources[0][i] + sources[1][i] + ...) / divisor, strictly in that order, in f32, rounded
// once to `to`. Both types are f32, bf16 or f16; the rest as above.
void SumFloats(ElementType from, std::span<const std::byte* const> sources, size_t count,
               double divisor, ElementType to, std::byte* out);

}  // namespace longhaul
