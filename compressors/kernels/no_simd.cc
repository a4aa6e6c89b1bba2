// Processors without our vector kernels: isa.cc never offers them, all there is is the reference.
#include "compressors/kernels/kernels.h"

namespace longhaul {

const Kernels& KernelsOf(Isa) { return scalar::Table(); }

}  // namespace longhaul
