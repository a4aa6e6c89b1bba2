// isa_test.cc again, in a program whose AVX-512 kernels run by SIMDe: their frames are the
// reference's also where no machine at hand has AVX-512. In place of compressors/isa.cc:
#include "compressors/isa.h"

namespace longhaul {

std::string_view IsaName(Isa isa) { return isa == Isa::kAvx512 ? "avx512_by_simde" : "scalar"; }

bool IsaSupported(Isa isa) { return isa != Isa::kAvx2; }

Isa BestIsa() { return Isa::kAvx512; }

}  // namespace longhaul
