#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace longhaul {

// Instruction sets that kernels are written for, weakest first. Frames and decoded values are
// bit-identical on all of them; only the speed differs.
enum class Isa : uint8_t {
  kScalar = 0,  // plain loops, the reference
  kAvx2 = 1,    // AVX2 + F16C + FMA
  kAvx512 = 2,  // AVX-512 F, BW, DQ, VL, VBMI, VNNI, VPCLMULQDQ (Ice Lake, Zen 4 and later)
};

std::string_view IsaName(Isa isa);  // "scalar", "avx2", "avx512"

// True when this CPU and operating system run it, and this build contains it.
bool IsaSupported(Isa isa);

// The strongest supported one; found once per process by CPUID.
Isa BestIsa();

// All three, for tests that want to name what they skip.
inline std::vector<Isa> AllIsas() { return {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}; }

}  // namespace longhaul
