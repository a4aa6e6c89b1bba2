#include "plugin/core/device/device_coder.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "compressors/catalog.h"
#include "plugin/core/coding.h"

namespace longhaul {
namespace {

// One job of each direction at a time; the device has the rest of the parallelism.
constexpr int kLanes = 2;

// Memory that grows and is kept.
class Room {
 public:
  using Allocate = std::byte* (DeviceRuntime::*)(size_t);
  using Free = void (DeviceRuntime::*)(std::byte*);
  Room(std::shared_ptr<DeviceRuntime> runtime, Allocate allocate, Free free)
      : runtime_(std::move(runtime)), allocate_(allocate), free_(free) {}
  ~Room() { Release(); }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  absl::StatusOr<std::byte*> AtLeast(size_t bytes) {
    if (bytes <= bytes_) return start_;
    Release();
    start_ = (*runtime_.*allocate_)(bytes);
    if (start_ == nullptr) {
      return absl::ResourceExhaustedError(
          fmt::format("no {} bytes for a frame on its way to or from the device", bytes));
    }
    bytes_ = bytes;
    return start_;
  }

 private:
  void Release() {
    if (start_ != nullptr) (*runtime_.*free_)(start_);
    start_ = nullptr;
    bytes_ = 0;
  }
  const std::shared_ptr<DeviceRuntime> runtime_;
  const Allocate allocate_;
  const Free free_;
  std::byte* start_ = nullptr;
  size_t bytes_ = 0;
};

// A stream and its slots, for one job at a time. The last reference may go on any thread, after the
// coder and after whoever made the runtime: so it holds the runtime.
class Lane {
 public:
  explicit Lane(const std::shared_ptr<DeviceRuntime>& runtime)
      : frame(runtime, &DeviceRuntime::AllocateHost, &DeviceRuntime::FreeHost),
        values(runtime, &DeviceRuntime::AllocateHost, &DeviceRuntime::FreeHost),
        report(runtime, &DeviceRuntime::AllocateHost, &DeviceRuntime::FreeHost),
        device(runtime, &DeviceRuntime::AllocateDevice, &DeviceRuntime::FreeDevice),
        runtime_(runtime) {}
  ~Lane() {
    if (stream_ != nullptr) runtime_->FreeStream(stream_);
  }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Its stream, behind `event`.
  absl::StatusOr<CudaStream> Behind(void* event) {
    if (stream_ == nullptr) {
      ASSIGN_OR_RETURN(const CudaStream made, runtime_->NewStream());
      stream_ = made;
    }
    RETURN_IF_ERROR(runtime_->After(stream_, event));
    return stream_;
  }

  Room frame, values, report, device;

 private:
  const std::shared_ptr<DeviceRuntime> runtime_;
  CudaStream stream_ = nullptr;
};

// Those that wait for a job. They outlive the coder as long as a frame in one of them is being
// sent.
class Lanes : public std::enable_shared_from_this<Lanes> {
 public:
  explicit Lanes(std::shared_ptr<DeviceRuntime> runtime) : runtime_(std::move(runtime)) {}
  // The lane comes back when the last reference has gone.
  std::shared_ptr<Lane> Take() {
    std::unique_ptr<Lane> lane;
    {
      const std::lock_guard lock(mu_);
      if (!idle_.empty()) {
        lane = std::move(idle_.back());
        idle_.pop_back();
      }
    }
    if (lane == nullptr) lane = std::make_unique<Lane>(runtime_);
    return {lane.release(), [self = shared_from_this()](Lane* back) {
              const std::lock_guard lock(self->mu_);
              self->idle_.emplace_back(back);
            }};
  }

 private:
  const std::shared_ptr<DeviceRuntime> runtime_;
  std::mutex mu_;
  std::vector<std::unique_ptr<Lane>> idle_;  // under mu_
};

}  // namespace

// What its jobs work with. They hold it and never the coder, whose last reference may go while a
// job of it is at work, or in one.
class DeviceCoder::Device {
 public:
  Device(std::shared_ptr<DeviceRuntime> runtime, const Clock* clock)
      : runtime_(runtime), clock_(clock), lanes_(std::make_shared<Lanes>(std::move(runtime))) {}

  void Encode(EncodeJob& job);
  void Decode(DecodeJob& job);
  std::shared_ptr<const DeviceCodec> CodecNamed(std::string_view name);

 private:
  // Of a job: while its stream waits for what the program does to the tensor, nothing is coded.
  struct Idle {
    absl::Duration enqueued = absl::ZeroDuration();
    absl::Duration time = absl::ZeroDuration();
  };
  absl::Status EncodeOn(Lane& lane, const EncodeJob& job, EncodeUpdate& update, Idle& idle);
  absl::Status Inspect(Lane& lane, EncodeJob& job, std::span<const std::byte> frame);
  absl::StatusOr<bool> DecodeOn(Lane& lane, const DecodeJob& job, Idle& idle);
  absl::Status Upload(Lane& lane, const DecodeJob& job, Idle& idle);
  absl::StatusOr<CudaStream> Behind(Lane& lane, void* event, Idle& idle);
  absl::Status Await(CudaStream stream, Idle& idle);
  std::shared_ptr<const DeviceCodec> CodecOf(std::span<const std::byte> frame);

  const std::shared_ptr<DeviceRuntime> runtime_;
  const Clock* const clock_;
  const std::shared_ptr<Lanes> lanes_;
  std::mutex mu_;
  std::map<std::string, std::shared_ptr<const DeviceCodec>, std::less<>> codecs_;  // under mu_
};

DeviceCoder::DeviceCoder(std::shared_ptr<DeviceRuntime> runtime, const Clock* clock)
    : device_(std::make_shared<Device>(std::move(runtime), clock)), threads_(kLanes) {}

DeviceCoder::~DeviceCoder() = default;

bool DeviceCoder::Encodes(std::string_view codec) { return device_->CodecNamed(codec) != nullptr; }

std::shared_ptr<const DeviceCodec> DeviceCoder::Device::CodecNamed(std::string_view name) {
  const std::lock_guard lock(mu_);
  const auto found = codecs_.find(name);
  if (found != codecs_.end()) return found->second;
  auto made = MakeDeviceCodec(name, runtime_->api());
  return codecs_.emplace(std::string(name), made.ok() ? *std::move(made) : nullptr).first->second;
}

std::shared_ptr<const DeviceCodec> DeviceCoder::Device::CodecOf(std::span<const std::byte> frame) {
  const auto codec = CodecOfFrame(frame);
  return codec.ok() ? CodecNamed((*codec)->name()) : nullptr;
}

absl::StatusOr<CudaStream> DeviceCoder::Device::Behind(Lane& lane, void* event, Idle& idle) {
  idle.enqueued = clock_->Now();
  return lane.Behind(event);
}

absl::Status DeviceCoder::Device::Await(CudaStream stream, Idle& idle) {
  ASSIGN_OR_RETURN(const absl::Duration busy, runtime_->Await(stream));
  idle.time += std::max(absl::ZeroDuration(), clock_->Now() - idle.enqueued - busy);
  return absl::OkStatus();
}

void DeviceCoder::Encode(EncodeJob job) {
  const auto shared = std::make_shared<EncodeJob>(std::move(job));
  threads_.Add(
      [device = device_, shared] {
        device->Encode(*shared);
        return false;
      },
      [shared](absl::Status why) {
        shared->update({.frame = {}, .last = true, .status = std::move(why), .time = {}});
      });
}

void DeviceCoder::Device::Encode(EncodeJob& job) {
  const absl::Duration start = clock_->Now();
  EncodeUpdate update{.frame = {}, .last = true, .status = {}, .time = {}};
  const std::shared_ptr<Lane> lane = lanes_->Take();
  Idle idle;
  update.status = EncodeOn(*lane, job, update, idle);
  update.time = clock_->Now() - start - idle.time;  // what is measured of it costs no encoding
  if (!update.status.ok()) {
    return job.update({.frame = {}, .last = true, .status = update.status, .time = update.time});
  }
  const std::span<const std::byte> frame = update.frame->bytes;
  update.frame->owner = lane;  // the frame stands in its slot until it has gone
  EncodeUpdate measured{.frame = {},
                        .ready_bytes = update.ready_bytes,
                        .last = true,
                        .status = {},
                        .time = update.time,
                        .on_device = true};
  update.last = !job.inspect;
  job.update(std::move(update));
  if (!job.inspect) return;
  // The frame is on its way by now; x stays as it is until the last update.
  measured.status = Inspect(*lane, job, frame);
  job.update(std::move(measured));
}

absl::Status DeviceCoder::Device::EncodeOn(Lane& lane, const EncodeJob& job, EncodeUpdate& update,
                                           Idle& idle) {
  if (job.abandoned && job.abandoned()) return absl::CancelledError("no longer wanted");
  const std::shared_ptr<const DeviceCodec> codec = CodecNamed(job.codec->name());
  if (codec == nullptr) {
    return absl::UnimplementedError(
        fmt::format("{} has no kernels for a device", job.codec->name()));
  }
  const SlotBytes needs = codec->Needs(job.x.shape, job.x.dtype);
  const absl::StatusOr<std::byte*> host = lane.frame.AtLeast(needs.host);
  if (!host.ok()) return host.status();
  const absl::StatusOr<std::byte*> device = lane.device.AtLeast(needs.device);
  if (!device.ok()) return device.status();
  const DeviceSlot slot{*host, needs.host, *device, needs.device};
  ASSIGN_OR_RETURN(const CudaStream stream, Behind(lane, job.after, idle));
  absl::Status s = codec->EnqueueEncode(job.x, job.seed, slot, stream);
  if (!s.ok()) return s;
  s = Await(stream, idle);
  if (!s.ok()) return s;
  ASSIGN_OR_RETURN(const size_t bytes, codec->FinishEncode(job.x, job.seed, slot));
  update.frame.emplace();
  update.frame->bytes = {*host, bytes};
  update.ready_bytes = bytes;
  update.on_device = true;
  return absl::OkStatus();
}

// The stream has come to the end of the encoding, which came after what the program did to x.
absl::Status DeviceCoder::Device::Inspect(Lane& lane, EncodeJob& job,
                                          std::span<const std::byte> frame) {
  const size_t bytes = job.x.shape.elements() * BytesPerElement(job.x.dtype);
  ASSIGN_OR_RETURN(std::byte* const host, lane.values.AtLeast(bytes));
  ASSIGN_OR_RETURN(const CudaStream stream, lane.Behind(nullptr));
  const int error = runtime_->api().to_host(job.x.values, host, bytes, stream);
  if (error != 0) {
    return absl::InternalError("copy of a tensor whose error is measured to the host: " +
                               std::string(runtime_->api().error(error)));
  }
  if (const auto copied = runtime_->Await(stream); !copied.ok()) return copied.status();
  job.inspect(frame, {host, job.x.dtype, job.x.shape});
  return absl::OkStatus();
}

void DeviceCoder::Decode(DecodeJob job) {
  const auto shared = std::make_shared<DecodeJob>(std::move(job));
  threads_.Add(
      [device = device_, shared] {
        device->Decode(*shared);
        return false;
      },
      [shared](absl::Status why) {
        shared->done({std::move(why), absl::ZeroDuration()});
      });
}

void DeviceCoder::Device::Decode(DecodeJob& job) {
  const absl::Duration start = clock_->Now();
  const std::shared_ptr<Lane> lane = lanes_->Take();
  Idle idle;
  const absl::StatusOr<bool> done = DecodeOn(*lane, job, idle);
  job.done({done.status(), clock_->Now() - start - idle.time, done.ok() && *done});
}

// Answers whether the device has decoded it.
absl::StatusOr<bool> DeviceCoder::Device::DecodeOn(Lane& lane, const DecodeJob& job, Idle& idle) {
  const bool raw = job.content == DecodeJob::Content::kRaw;
  const auto codec = raw || job.receiver != nullptr ? nullptr : CodecOf(job.frame);
  if (codec == nullptr) {
    RETURN_IF_ERROR(Upload(lane, job, idle));
    return false;
  }
  const SlotBytes needs = codec->Needs(job.x.shape, job.x.dtype);
  const absl::StatusOr<std::byte*> frame = lane.frame.AtLeast(job.frame.size());
  if (!frame.ok()) return frame.status();
  const absl::StatusOr<std::byte*> report = lane.report.AtLeast(needs.host);
  if (!report.ok()) return report.status();
  const absl::StatusOr<std::byte*> device = lane.device.AtLeast(needs.device);
  if (!device.ok()) return device.status();
  std::memcpy(*frame, job.frame.data(), job.frame.size());
  const DeviceSlot slot{*report, needs.host, *device, needs.device};
  ASSIGN_OR_RETURN(const CudaStream stream, Behind(lane, job.after, idle));
  absl::Status s = codec->EnqueueDecode({*frame, job.frame.size()}, slot, job.x, stream);
  if (s.ok()) s = Await(stream, idle);
  if (s.ok()) s = codec->FinishDecode(slot);
  if (!s.ok()) return s;
  return true;
}

// Values made on the host, or that came as such, to the device.
absl::Status DeviceCoder::Device::Upload(Lane& lane, const DecodeJob& job, Idle& idle) {
  const bool raw = job.content == DecodeJob::Content::kRaw;
  const size_t bytes = raw ? job.raw_bytes : job.x.shape.elements() * BytesPerElement(job.x.dtype);
  ASSIGN_OR_RETURN(std::byte* const host, lane.frame.AtLeast(bytes));
  const Tensor values{host, job.x.dtype, job.x.shape};
  absl::Status s;
  if (raw) {
    std::memcpy(host, job.frame.data(), bytes);
  } else if (job.receiver != nullptr) {
    s = job.receiver->Decode(job.frame, values);
  } else {
    s = DecodeFrame(job.frame, values);
  }
  if (!s.ok()) return s;
  ASSIGN_OR_RETURN(const CudaStream stream, Behind(lane, job.after, idle));
  const int error = runtime_->api().to_device(host, job.x.values, bytes, stream);
  if (error != 0) return absl::InternalError("copy to the device: " + runtime_->api().error(error));
  return Await(stream, idle);
}

}  // namespace longhaul
