#include "compressors/cuda/cast/cast_tables.h"
#include "compressors/cuda/selection/selection_tables.h"
#include "compressors/cuda/team/cuda_tables.h"
#include "compressors/cuda/team/launch.cuh"

namespace longhaul {
namespace {

int Fill(void* device, int byte, size_t bytes, CudaStream stream) {
  return cudaMemsetAsync(device, byte, bytes, stream);
}
int ToHost(const void* device, void* host, size_t bytes, CudaStream stream) {
  return cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream);
}
int ToDevice(const void* host, void* device, size_t bytes, CudaStream stream) {
  return cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream);
}
std::string Error(int number) { return cudaGetErrorString(static_cast<cudaError_t>(number)); }

}  // namespace

const DeviceApi& CudaDevice() {
  static const BlockLaunchers blocks = {CudaEncodeTable(), CudaStochasticEncodeTable(),
                                        CudaDecodeTable()};
  static const CastLaunchers casts = MakeCastLaunchers<CudaLauncher>();
  static const SelectionLaunchers selection = MakeSelectionLaunchers<CudaLauncher>();
  static const DeviceApi api = {Fill, ToHost, ToDevice, Error, &blocks, &casts, &selection};
  return api;
}

}  // namespace longhaul
