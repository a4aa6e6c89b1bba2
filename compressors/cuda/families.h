#pragma once

#include "compressors/cuda/cuda_codec.h"

// The families that have kernels for a device. Each takes the codec of the catalogue that it stands
// for; nullptr when that is none of the family.
namespace longhaul {

using HostCodec = std::shared_ptr<const Codec>;
using NewDeviceCodecFn = std::shared_ptr<const DeviceCodec> (*)(HostCodec host,
                                                                const DeviceApi& device);

std::shared_ptr<const DeviceCodec> NewDeviceCast(HostCodec host, const DeviceApi& device);
std::shared_ptr<const DeviceCodec> NewDeviceBlocks(HostCodec host, const DeviceApi& device);
std::shared_ptr<const DeviceCodec> NewDeviceSelection(HostCodec host, const DeviceApi& device);

// Any of them; nullptr when there is none.
std::shared_ptr<const DeviceCodec> NewDeviceCodec(HostCodec host, const DeviceApi& device);

}  // namespace longhaul
