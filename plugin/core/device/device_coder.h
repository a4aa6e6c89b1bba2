#pragma once

#include <memory>
#include <string_view>

#include "plugin/core/clock.h"
#include "plugin/core/coder.h"
#include "plugin/core/device/device_runtime.h"
#include "plugin/core/step_threads.h"

namespace longhaul {

// Coder of one device's memory: codecs with kernels (compressors/cuda) run on streams of its own,
// beside the program's, and only the frame crosses to or from the host, through page-locked slots
// that are reused. Frames are those of the host, bit for bit; so is what is measured of their error
// (EncodeJob::inspect), for which the tensor's values cross as well. What has no kernels and what
// is raw is decoded on the host and copied to the device; sends of such tensors are the caller's to
// stage.
class DeviceCoder final : public Coder {
 public:
  // The runtime lives as long as the last frame that was made with it. `clock` must outlive the
  // coder and its jobs.
  DeviceCoder(std::shared_ptr<DeviceRuntime> runtime, const Clock* clock);
  ~DeviceCoder() override;  // on any thread, its own too

  // Whether Encode has kernels for that codec of the catalogue.
  bool Encodes(std::string_view codec);

  void Encode(EncodeJob job) override;
  void Decode(DecodeJob job) override;
  bool reads_pieces() const override { return false; }
  void Drain() override { threads_.Drain(); }

 private:
  class Device;
  const std::shared_ptr<Device> device_;
  StepThreads threads_;
};

}  // namespace longhaul
