#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compressors/codec.h"
#include "compressors/cuda/team/device.h"

namespace longhaul {

// What one encode or decode in flight needs, owned by the caller and reused from call to call.
struct DeviceSlot {
  std::byte* host;  // page-locked; a copy to or from other memory would hold up the stream
  size_t host_bytes;
  std::byte* device;  // 256-byte aligned, as cudaMalloc gives it
  size_t device_bytes;
};
struct SlotBytes {
  size_t host, device;
};

// A codec of the catalogue whose tensors lie on a device. Its frames and its decoded values are
// those of Codec (compressors/codec.h) bit for bit, so the two ends of a link need not know of each
// other. The device's part is enqueued and not waited for; header and checksum are made on the
// host, over the payload as it was copied:
//
//   codec->EnqueueEncode(x, seed, slot, stream);      // x.values on the device
//   cudaStreamSynchronize(stream);                    // or an event, later
//   size_t bytes = *codec->FinishEncode(x, seed, slot);  // the frame stands at slot.host
//
//   codec->EnqueueDecode(frame, slot, y, stream);     // frame on the host
//   cudaStreamSynchronize(stream);
//   codec->FinishDecode(slot);                        // y is valid when this is OK
//
// No call allocates device memory or synchronizes. Thread safety: const methods may run
// concurrently, each on its own slot. Stateless: error feedback is the caller's (decode into
// scratch, subtract).
class DeviceCodec {
 public:
  virtual ~DeviceCodec() = default;

  virtual std::string_view name() const = 0;
  virtual uint16_t id() const = 0;

  // What a slot must have for one tensor of this shape and source dtype. slot.host holds the frame
  // of an encode; decoding needs kFrameHeaderBytes of it.
  virtual SlotBytes Needs(Shape shape, DType dtype) const = 0;

  // InvalidArgument: empty x, a slot too small. Internal: the device refused.
  virtual absl::Status EnqueueEncode(ConstTensor x, uint64_t seed, const DeviceSlot& slot,
                                     CudaStream stream) const = 0;
  // After the stream has come this far; x and seed as above (x's values are not looked at). Answers
  // the frame's bytes. Errors as Codec::Encode.
  virtual absl::StatusOr<size_t> FinishEncode(ConstTensor x, uint64_t seed,
                                              const DeviceSlot& slot) const = 0;

  // x.values on the device. `frame` must not overlap slot.host and must live until the stream has
  // come this far. Errors as Codec::Decode but for what only the payload tells.
  virtual absl::Status EnqueueDecode(std::span<const std::byte> frame, const DeviceSlot& slot,
                                     Tensor x, CudaStream stream) const = 0;
  // After the stream has come this far. DataLoss: the payload holds what no encoder writes; x then
  // holds unspecified values.
  virtual absl::Status FinishDecode(const DeviceSlot& slot) const = 0;
};

// The codec of that name of the catalogue, "+sr" included. NotFound: unknown, or without kernels
// for a device; the message lists those that have them.
absl::StatusOr<std::shared_ptr<const DeviceCodec>> MakeDeviceCodec(std::string_view name,
                                                                   const DeviceApi& device);

// Whether this build has the kernels (LONGHAUL_CUDA). Without them tensors of a GPU are coded on the
// host.
bool DeviceCodecsAreBuilt();

// Every plain name of the catalogue that has kernels for a device.
std::vector<std::string> DeviceCodecNames();

}  // namespace longhaul
