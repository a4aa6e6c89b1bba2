#pragma once

#include <cstdint>
#include <span>

namespace longhaul {

// In place: x <- H x / sqrt(n), n = x.size() a power of two, H Sylvester's matrix with
// H_ij = (-1)^popcount(i & j). Its own inverse. Butterfly stages h = 1, 2, 4, ... and then one
// multiplication, in this order on every instruction set, so that all round alike.
void Hadamard(std::span<float> x);

// In place: x <- H x. Whole numbers, so any order of the stages gives the same.
void HadamardSums(std::span<int32_t> x);

}  // namespace longhaul
