#pragma once

#include <array>
#include <cstddef>

#include "compressors/isa.h"
#include "compressors/tensor.h"

namespace longhaul {

// n elements from one dtype to another. Widening is exact; narrowing is RNE and clamps finite
// values to the largest finite one. `in` and `out` need no alignment and must not overlap. Answers
// whether all of `in` was finite.
using ConvertFn = bool (*)(const std::byte* in, size_t n, std::byte* out);

// [from][to]
using ConvertTable = std::array<std::array<ConvertFn, 3>, 3>;

ConvertFn Converter(Isa isa, DType from, DType to);

const ConvertTable& ScalarConverters();
const ConvertTable& Avx2Converters();
const ConvertTable& Avx512Converters();

// One element, for short tails; the reference of the above.
float LoadElement(const std::byte* in, DType dtype, size_t i);
void StoreElement(float value, std::byte* out, DType dtype, size_t i);

}  // namespace longhaul
