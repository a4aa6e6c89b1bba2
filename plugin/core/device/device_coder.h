#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

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
class DeviceCoder final : public Coder, public std::enable_shared_from_this<DeviceCoder> {
 public:
  // `runtime` and `clock` must outlive it and every frame that it has made.
  DeviceCoder(DeviceRuntime* runtime, const Clock* clock);
  ~DeviceCoder() override;

  // Whether Encode has kernels for that codec of the catalogue.
  bool Encodes(std::string_view codec);

  void Encode(EncodeJob job) override;
  void Decode(DecodeJob job) override;
  bool reads_pieces() const override { return false; }
  void Drain() override { threads_.Drain(); }

 private:
  class Lane;   // a stream and its slots, one job at a time
  class Lanes;  // those that wait for a job
  absl::Status EncodeOn(Lane& lane, const EncodeJob& job, EncodeUpdate& update);
  absl::Status Inspect(Lane& lane, EncodeJob& job, std::span<const std::byte> frame);
  absl::StatusOr<bool> DecodeOn(Lane& lane, const DecodeJob& job);
  absl::Status Upload(Lane& lane, const DecodeJob& job);
  std::shared_ptr<const DeviceCodec> CodecNamed(std::string_view name);
  std::shared_ptr<const DeviceCodec> CodecOf(std::span<const std::byte> frame);

  DeviceRuntime* const runtime_;
  const Clock* const clock_;
  std::mutex mu_;
  std::map<std::string, std::shared_ptr<const DeviceCodec>, std::less<>> codecs_;  // under mu_
  const std::shared_ptr<Lanes> lanes_;
  StepThreads threads_;
};

}  // namespace longhaul
