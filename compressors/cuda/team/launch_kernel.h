#pragma once

#include "compressors/cuda/team/device.h"

// The tables of DeviceApi are made over a Launcher: CudaLauncher (launch.cuh), or that of the host
// (tests/compressors/cuda_host_team.h). Launcher::Launch(kernel, stream) runs every team of it.
namespace longhaul {

template <class Launcher, class Kernel, class Run>
int LaunchKernel(const Run& run, CudaStream stream) {
  return Launcher::Launch(Kernel{run}, stream);
}

}  // namespace longhaul
