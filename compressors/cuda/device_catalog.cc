#include <fmt/format.h>

#include "base/status_macros.h"
#include "compressors/catalog.h"
#include "compressors/cuda/cuda_codec.h"
#include "compressors/cuda/families.h"

namespace longhaul {
namespace {

// Adding a family = one line here, its files, its launchers in DeviceApi.
constexpr NewDeviceCodecFn kFamilies[] = {NewDeviceCast, NewDeviceBlocks, NewDeviceSelection};

}  // namespace

std::shared_ptr<const DeviceCodec> NewDeviceCodec(HostCodec host, const DeviceApi& device) {
  for (const NewDeviceCodecFn make : kFamilies) {
    if (auto codec = make(host, device)) return codec;
  }
  return nullptr;
}

absl::StatusOr<std::shared_ptr<const DeviceCodec>> MakeDeviceCodec(std::string_view name,
                                                                   const DeviceApi& device) {
  ASSIGN_OR_RETURN(HostCodec host, MakeCodec(name));
  if (auto codec = NewDeviceCodec(host, device)) return codec;
  return absl::NotFoundError(
      fmt::format("codec '{}' has no kernels for a device; those that have: {}", name,
                  fmt::join(DeviceCodecNames(), ", ")));
}

bool DeviceCodecsAreBuilt() { return LONGHAUL_CUDA_BUILT; }

std::vector<std::string> DeviceCodecNames() {
  static constexpr DeviceApi kNone = {};  // no device is needed to say what there is
  std::vector<std::string> names;
  for (const std::string& name : CodecNames()) {
    if (NewDeviceCodec(*MakeCodec(name), kNone) != nullptr) names.push_back(name);
  }
  return names;
}

}  // namespace longhaul
