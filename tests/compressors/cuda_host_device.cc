// Every kernel's text, compiled for the host.
#include "compressors/cuda/block/block_tables.h"
#include "compressors/cuda/cast/cast_tables.h"
#include "compressors/cuda/selection/selection_tables.h"
#include "tests/compressors/cuda_host_team.h"

namespace longhaul {
namespace {

int Fill(void* device, int byte, size_t bytes, CudaStream) {
  std::memset(device, byte, bytes);
  return 0;
}
int Copy(const void* from, void* to, size_t bytes, CudaStream) {
  std::memcpy(to, from, bytes);
  return 0;
}

}  // namespace

const DeviceApi& HostDevice() {
  static constexpr BlockLaunchers kBlocks = {
      MakeEncodeTable<HostLauncher, Rounding::kNearest>(AllBlockSchemes()),
      MakeEncodeTable<HostLauncher, Rounding::kStochastic>(AllBlockSchemes()),
      MakeDecodeTable<HostLauncher>(AllBlockSchemes())};
  static constexpr CastLaunchers kCasts = MakeCastLaunchers<HostLauncher>();
  static constexpr SelectionLaunchers kSelection = MakeSelectionLaunchers<HostLauncher>();
  static constexpr DeviceApi kApi = {
      Fill,     Copy,    Copy,       [](int number) { return std::to_string(number); },
      &kBlocks, &kCasts, &kSelection};
  return kApi;
}

}  // namespace longhaul
