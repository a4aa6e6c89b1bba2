#pragma once

#include <utility>

#include "compressors/cuda/families.h"
#include "compressors/families/fixed_length_codec.h"

namespace longhaul {

// A device codec of a FixedLengthCodec, which makes and checks its headers. In device memory the
// frame lies as on the wire, a DeviceReport in the place of its header. One copy brings both
// to the host, where the header is put over the report.
class FixedFrameCodec : public DeviceCodec {
 public:
  // host: the FixedLengthCodec that this one stands for.
  FixedFrameCodec(HostCodec host, const DeviceApi& device)
      : host_(std::dynamic_pointer_cast<const FixedLengthCodec>(std::move(host))),
        device_(device) {}

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
  // One tensor at work: `frame` is the device's.
  struct Work {
    std::byte* frame;
    CudaStream stream;
    DeviceReport* report() const { return reinterpret_cast<DeviceReport*>(frame); }
  };
  const DeviceApi& device() const { return device_; }

  // Enqueues what fills frame[64...]; answers the device's error number.
  virtual int LaunchEncode(ConstTensor x, uint64_t seed, const Work& work) const = 0;
  // What a fault that the device reports of decoding means.
  virtual absl::Status DecodeFault() const { return absl::OkStatus(); }
  absl::Status Corrupt(std::string_view what) const;
  virtual int LaunchDecode(const FrameHeader& header, Tensor x, const Work& work) const = 0;

 private:
  const std::shared_ptr<const FixedLengthCodec> host_;
  const DeviceApi& device_;
};

}  // namespace longhaul
