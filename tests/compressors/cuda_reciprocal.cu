#include "tests/compressors/cuda_reciprocal.h"

#include <cuda_runtime_api.h>

#include "compressors/cuda/tah/tah_entropy.h"
#include "compressors/cuda/team/device_team.cuh"

namespace longhaul {
namespace {

// One thread per mantissa: the quotients of tah_entropy.h against IEEE division.
__global__ void Compare(unsigned long long* differ) {
  using Team = DeviceTeam<kWarp>;
  const float m = FromBits(0x3F800000 | (blockIdx.x * blockDim.x + threadIdx.x));
  const bool argument = AtanhArgument<Team>(m) != __fdiv_rn(m - 1.0f, m + 1.0f);
  const ShareScale by = ScaleOfShares<Team>(m);
  const bool inverse = by.inverse != __fdiv_rn(1.0f, by.divisor);
  if (argument || inverse) atomicAdd(differ, 1ull);
}

}  // namespace

int CountWrongQuotients(unsigned long long& wrong) {
  unsigned long long* differ = nullptr;
  int error = cudaMalloc(&differ, sizeof(*differ));
  if (error == cudaSuccess) error = cudaMemset(differ, 0, sizeof(*differ));
  if (error == cudaSuccess) {
    Compare<<<(1 << 23) / 256, 256>>>(differ);
    error = cudaMemcpy(&wrong, differ, sizeof(wrong), cudaMemcpyDeviceToHost);
  }
  cudaFree(differ);
  return error;
}

}  // namespace longhaul
