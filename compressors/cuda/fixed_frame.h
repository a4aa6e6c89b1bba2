#pragma once

#include <utility>

#include "compressors/cuda/cuda_codec.h"
#include "compressors/frame/frame.h"

namespace longhaul {

// A device codec whose frame has a length that the shape alone decides. In device memory the frame
// lies as on the wire, a DeviceReport in the place of its header; scratch follows. One copy brings
// both to the host, where the header is put over the report.
class FixedFrameCodec : public DeviceCodec {
 public:
  // host: the codec of the catalogue that this one stands for.
  FixedFrameCodec(std::shared_ptr<const Codec> host, const DeviceApi& device)
      : host_(std::move(host)), device_(device) {}

  std::string_view name() const override { return host_->name(); }
  uint16_t id() const override { return host_->id(); }
  SlotBytes Needs(Shape shape, DType dtype) const override;
  absl::Status EnqueueEncode(ConstTensor x, uint64_t seed, const DeviceSlot& slot,
                             CudaStream stream) const override;
  absl::StatusOr<size_t> FinishEncode(ConstTensor x, uint64_t seed,
                                      const DeviceSlot& slot) const override;
  absl::Status EnqueueDecode(std::span<const std::byte> frame, const DeviceSlot& slot, Tensor x,
                             CudaStream stream) const override;
  absl::Status FinishDecode(const DeviceSlot& slot) const override;

 protected:
  // One tensor at work: `frame` is the device's, `scratch` of ScratchBytes.
  struct Work {
    std::byte* frame;
    std::byte* scratch;
    CudaStream stream;
    DeviceReport* report() const { return reinterpret_cast<DeviceReport*>(frame); }
  };
  const Codec& host() const { return *host_; }
  const DeviceApi& device() const { return device_; }

  virtual size_t ScratchBytes(Shape) const { return 0; }
  // Enqueues what fills frame[64...]; answers the device's error number.
  virtual int LaunchEncode(ConstTensor x, uint64_t seed, const Work& work) const = 0;
  // `frame` as it came from the device: fills the gaps between sections and seals it.
  virtual void Seal(ConstTensor x, uint64_t seed, std::span<std::byte> frame) const = 0;
  // What a fault of encoding and of decoding means; `fault` is a BlockFault.
  virtual absl::Status EncodeFault(uint64_t fault) const;
  virtual absl::Status DecodeFault() const = 0;
  // The header of a frame for x, or what is wrong with it.
  virtual absl::StatusOr<FrameHeader> Open(std::span<const std::byte> frame,
                                           ConstTensor x) const = 0;
  virtual int LaunchDecode(const FrameHeader& header, Tensor x, const Work& work) const = 0;

 private:
  const std::shared_ptr<const Codec> host_;
  const DeviceApi& device_;
};

}  // namespace longhaul
