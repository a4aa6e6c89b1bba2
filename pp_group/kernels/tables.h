#pragma once

#include "pp_group/kernels/kernels.h"

namespace longhaul {

// One table per instruction set: the same body (body.h, attention.h) compiled with other flags.
extern const Kernels kPlainKernels;
extern const Kernels kAvx2Kernels;

}  // namespace longhaul
