#pragma once

#include "compressors/cuda/team/device.h"
#include "compressors/cuda/team/device_team.cuh"

// From a kernel (team.h) to a launch on a stream.
namespace longhaul {

template <class Kernel>
constexpr int kBlockThreads = Kernel::kThreads* kTeamsPerBlock<Kernel::kThreads>;

// A kernel may say how many blocks shall fit on a multiprocessor, which bounds its registers. 0
// leaves it to nvcc; 1 would make it take all it can use, at the price of every other warp.
template <class Kernel>
constexpr int MinBlocks() {
  if constexpr (requires { Kernel::kMinBlocks; }) {
    return Kernel::kMinBlocks;
  } else {
    return 0;
  }
}

template <class Kernel>
__global__ void __launch_bounds__(kBlockThreads<Kernel>, MinBlocks<Kernel>())
    RunTeams(const __grid_constant__ Kernel kernel) {
  constexpr int kTeams = kTeamsPerBlock<Kernel::kThreads>;
  const uint64_t index = uint64_t{blockIdx.x} * kTeams + threadIdx.x / Kernel::kThreads;
  if (kTeams > 1 && index >= kernel.teams()) return;
  DeviceTeam<Kernel::kThreads> team(index);
  kernel(team);
}

struct CudaLauncher {
  template <class Kernel>
  static int Launch(const Kernel& kernel, CudaStream stream) {
    constexpr uint64_t kTeams = kTeamsPerBlock<Kernel::kThreads>;
    const uint64_t blocks = (kernel.teams() + kTeams - 1) / kTeams;
    if (blocks == 0) return cudaSuccess;
    if (blocks > INT32_MAX) return cudaErrorInvalidConfiguration;
    RunTeams<<<static_cast<unsigned>(blocks), kBlockThreads<Kernel>, 0, stream>>>(kernel);
    return cudaGetLastError();
  }
};

}  // namespace longhaul
