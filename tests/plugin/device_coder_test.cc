// Tensors that lie on a device, coded there: frames are the host's, values too, and only frames
// cross. The host stands in for the device, as for the codecs (cuda_host_test).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <deque>
#include <functional>
#include <future>
#include <optional>
#include <thread>

#include "absl/time/clock.h"
#include "compressors/catalog.h"
#include "compressors/kernels/convert.h"
#include "plugin/core/device/device_coder.h"
#include "tests/compressors/cuda_host_team.h"
#include "tests/plugin/transport_cases.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

// Counts what crosses, and what has been allocated and not freed.
class HostRuntime final : public DeviceRuntime {
 public:
  HostRuntime() : api_(HostDevice()) {
    api_.to_host = [](const void* device, void* host, size_t bytes, CudaStream stream) {
      crossed += bytes;
      return HostDevice().to_host(device, host, bytes, stream);
    };
    api_.to_device = [](const void* host, void* device, size_t bytes, CudaStream stream) {
      crossed += bytes;
      return HostDevice().to_device(host, device, bytes, stream);
    };
    crossed = 0;
  }
  const DeviceApi& api() const override { return api_; }
  std::byte* AllocateHost(size_t bytes) override { return Allocate(bytes); }
  void FreeHost(std::byte* memory) override { Free(memory); }
  std::byte* AllocateDevice(size_t bytes) override { return exhausted ? nullptr : Allocate(bytes); }
  void FreeDevice(std::byte* memory) override { Free(memory); }
  absl::StatusOr<CudaStream> NewStream() override {
    ++live;
    return reinterpret_cast<CudaStream>(this);
  }
  void FreeStream(CudaStream) override { --live; }
  absl::Status After(CudaStream, void* event) override {
    if (event != nullptr) ++events;
    return absl::OkStatus();
  }
  absl::StatusOr<absl::Duration> Await(CudaStream) override {
    held.wait(true);
    awaited();
    return at_work;
  }

  static inline std::atomic<size_t> crossed;
  std::atomic<int> live = 0, events = 0;
  std::atomic<bool> exhausted = false, held = false;
  std::function<void()> awaited = [] {};
  absl::Duration at_work = absl::ZeroDuration();

 private:
  std::byte* Allocate(size_t bytes) {
    ++live;
    return static_cast<std::byte*>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  }
  void Free(std::byte* memory) {
    --live;
    std::free(memory);
  }
  DeviceApi api_;
};

// The frame of `x`, encoded by itself.
struct Encoded {
  EncodeJob Job(const Codec& codec, ConstTensor x) {
    return {.codec = &codec,
            .x = x,
            .after = nullptr,
            .seed = 1,
            .state = nullptr,
            .raw_from = {},
            .inspect = {},
            .abandoned = {},
            .update = [this](EncodeUpdate update) { frame.set_value(std::move(update)); }};
  }
  std::promise<EncodeUpdate> frame;
};

class SetClock final : public Clock {
 public:
  absl::Duration Now() const override { return now; }
  absl::Duration now = absl::ZeroDuration();
};

// A stream that waits 9 s for what the program does to the tensor, and works for 2.
TEST(DeviceCoderLife, TheTimeOfAJobIsWithoutTheWaitForTheProgram) {
  const auto codec = *MakeCodec("int8-b64");
  const std::vector<float> x = Noise(4096, 1);
  SetClock clock;
  const auto runtime = std::make_shared<HostRuntime>();
  runtime->awaited = [&clock] { clock.now += absl::Seconds(11); };
  runtime->at_work = absl::Seconds(2);
  DeviceCoder coder(runtime, &clock);
  Encoded encoded;
  coder.Encode(encoded.Job(*codec, {x.data(), DType::kF32, {16, 256}}));
  const EncodeUpdate update = encoded.frame.get_future().get();
  ASSERT_EQ(update.status, absl::OkStatus());
  EXPECT_EQ(update.time, absl::Seconds(2));
  for (const bool raw : {false, true}) {
    std::vector<float> y(x.size());
    std::promise<DecodeResult> decoded;
    coder.Decode(
        {.frame = update.frame->bytes,
         .x = {y.data(), DType::kF32, {16, 256}},
         .content = raw ? DecodeJob::Content::kRaw : DecodeJob::Content::kFrame,
         .raw_bytes = raw ? update.frame->bytes.size() : 0,
         .done = [&decoded](DecodeResult result) { decoded.set_value(std::move(result)); }});
    EXPECT_EQ(decoded.get_future().get().time, absl::Seconds(2)) << raw;
  }
}

TEST(DeviceCoderLife, AFrameIsGivenAwayBeforeItsErrorIsMeasured) {
  const auto codec = *MakeCodec("int8-b64");
  const std::vector<float> x = Noise(4096, 1);
  DeviceCoder coder(std::make_shared<HostRuntime>(), &MonotonicClock());
  Encoded encoded;
  EncodeJob job = encoded.Job(*codec, {x.data(), DType::kF32, {16, 256}});
  std::vector<std::string> seen;
  job.inspect = [&](std::span<const std::byte>, ConstTensor) { seen.push_back("measured"); };
  job.update = [&](EncodeUpdate update) {
    seen.push_back(update.frame ? "frame" : "no frame");
    if (update.last) encoded.frame.set_value(std::move(update));
  };
  coder.Encode(std::move(job));
  EXPECT_EQ(encoded.frame.get_future().get().status, absl::OkStatus());
  EXPECT_THAT(seen, testing::ElementsAre("frame", "measured", "no frame"));
}

TEST(DeviceCoderLife, AFrameOutlivesTheCoderAndWhoeverMadeTheRuntime) {
  const auto codec = *MakeCodec("int8-b64");
  std::vector<float> x = Noise(4096, 1);
  auto runtime = std::make_shared<HostRuntime>();
  const std::weak_ptr<HostRuntime> alive = runtime;
  std::optional<DeviceCoder> coder(std::in_place, std::move(runtime), &MonotonicClock());
  Encoded encoded;
  coder->Encode(encoded.Job(*codec, {x.data(), DType::kF32, {16, 256}}));
  EncodeUpdate update = encoded.frame.get_future().get();
  ASSERT_EQ(update.status, absl::OkStatus());
  coder.reset();
  ASSERT_FALSE(alive.expired());
  EXPECT_GT(alive.lock()->live, 0);
  std::vector<float> y(x.size());
  EXPECT_EQ(DecodeFrame(update.frame->bytes, {y.data(), DType::kF32, {16, 256}}), absl::OkStatus());
  std::thread([owner = std::move(update.frame->owner)] {}).join();
  EXPECT_TRUE(alive.expired());
}

// One thread lets go of the coder while the other is at work: neither waits for the other.
TEST(DeviceCoderLife, ItsOwnThreadMayBeTheLastToLetGo) {
  struct Last {
    std::promise<void> gone;
    ~Last() { gone.set_value(); }
  };
  const auto codec = *MakeCodec("int8-b64");
  std::vector<float> x = Noise(4096, 1);
  const ConstTensor tensor{x.data(), DType::kF32, {16, 256}};
  auto coder = std::make_shared<DeviceCoder>(std::make_shared<HostRuntime>(), &MonotonicClock());
  DeviceCoder& face = *coder;
  auto last = std::make_shared<Last>();
  std::future<void> gone = last->gone.get_future();
  std::promise<void> let_go, other_done;
  Encoded holding, waiting;
  EncodeJob one = holding.Job(*codec, tensor), two = waiting.Job(*codec, tensor);
  two.update = [&, gone = std::move(gone)](const EncodeUpdate&) mutable {
    EXPECT_EQ(gone.wait_for(std::chrono::seconds(20)), std::future_status::ready);
    other_done.set_value();
  };
  face.Encode(std::move(two));
  // Members go last first: the coder, then what says so.
  struct Held {
    std::shared_ptr<Last> last;
    std::shared_ptr<DeviceCoder> coder;
  };
  one.update = [held = Held{std::move(last), std::move(coder)},
                may = let_go.get_future()](const EncodeUpdate&) mutable { may.wait(); };
  face.Encode(std::move(one));
  let_go.set_value();
  other_done.get_future().wait();
}

class DeviceCoderTest : public testing::TestWithParam<TransportKind> {
 protected:
  static std::function<void(GroupOptions&)> With(const std::string& codec) {
    return [codec](GroupOptions& options) {
      options.codecs.forward = codec;
      options.seed = 9;
    };
  }
  static CrossingCounters Row(const Group& group, bool sent) {
    for (const CrossingCounters& row : TotalsByPeer(group.counters())) {
      if (row.sent == sent) return row;
    }
    return {};
  }
  static std::vector<std::byte> Values(size_t count) {
    const std::vector<float> floats = Noise(count, 3);
    std::vector<std::byte> values(2 * count);
    for (size_t i = 0; i < count; ++i) StoreElement(floats[i], values.data(), DType::kBF16, i);
    return values;
  }
  WireTensor Wire(std::vector<std::byte>& values, bool on_device) {
    WireTensor x{
        values.data(), ElementType::kBF16, {static_cast<int64_t>(values.size()) / 512, 256}};
    if (!on_device) return x;
    x.coder = coder;
    x.after = runtime;
    return x;
  }
  std::shared_ptr<HostRuntime> runtime = std::make_shared<HostRuntime>();
  std::shared_ptr<DeviceCoder> coder = std::make_shared<DeviceCoder>(runtime, &MonotonicClock());
};

TEST_P(DeviceCoderTest, EitherEndMayBeADeviceAndNoByteChanges) {
  for (const char* codec : {"int8-b64", "int4-b64-h64", "int8-b64+sr", "topk-64of4096+fp16"}) {
    std::vector<std::vector<std::byte>> received;
    std::vector<uint64_t> hashes;
    std::vector<std::byte> x = Values(size_t{2400} * 256);
    for (const int devices : {0, 1, 2, 3}) {
      const Cluster cluster(GetParam(), 2);
      const auto group = cluster.MakeGroup("pp", With(codec));
      ASSERT_EQ(group[0]->CodecFor(Wire(x, false), 1, 0), codec);
      ASSERT_TRUE(coder->Encodes(codec));
      std::vector<std::byte> y(x.size());
      Outcome send, recv;
      const size_t before = HostRuntime::crossed;
      group[1]->Recv(Wire(y, (devices & 2) != 0), 0, 0, recv.done());
      group[0]->Send(Wire(x, (devices & 1) != 0), 1, 0, send.done());
      ASSERT_EQ(recv.Wait(), absl::OkStatus()) << codec << " " << devices;
      ASSERT_EQ(send.Wait(), absl::OkStatus()) << codec << " " << devices;
      // Frames and short reports: never the tensor.
      EXPECT_LT(HostRuntime::crossed - before, 2 * x.size() * 6 / 10);
      EXPECT_EQ(Row(*group[0], true).device_tensors, devices & 1);
      EXPECT_EQ(Row(*group[1], false).device_tensors, devices >> 1);
      EXPECT_EQ(Row(*group[1], false).payload_hash, Row(*group[0], true).payload_hash);
      hashes.push_back(Row(*group[0], true).payload_hash);
      received.push_back(std::move(y));
    }
    for (size_t i = 1; i < 4; ++i) {
      EXPECT_EQ(hashes[i], hashes[0]) << codec << " " << i;
      EXPECT_TRUE(received[i] == received[0]) << codec << " " << i;
    }
  }
  EXPECT_GT(runtime->events, 0);
}

TEST_P(DeviceCoderTest, WhatIsSampledHasTheErrorThatTheHostMeasures) {
  constexpr int kFrames = 7, kEvery = 3;  // frames 0, 3 and 6
  for (const char* codec : {"int4-b64-h64", "int8-b64+sr"}) {
    std::vector<std::vector<double>> errors;
    std::vector<size_t> crossed;
    for (const bool on_device : {false, true}) {
      const Cluster cluster(GetParam(), 2);
      const auto group = cluster.MakeGroup("pp", [&](GroupOptions& options) {
        With(codec)(options);
        options.nmse_every = kEvery;
      });
      const size_t before = HostRuntime::crossed;
      for (int i = 0; i < kFrames; ++i) {
        std::vector<std::byte> x = Values(size_t{600} * 256), y(x.size());
        Outcome send, recv;
        group[1]->Recv(Wire(y, false), 0, 0, recv.done());
        group[0]->Send(Wire(x, on_device), 1, 0, send.done());
        ASSERT_EQ(recv.Wait(), absl::OkStatus());
        ASSERT_EQ(send.Wait(), absl::OkStatus());
      }
      crossed.push_back(HostRuntime::crossed - before);
      std::vector<double> of_samples;
      for (const NmseSample& sample : group[0]->TakeNmse()) of_samples.push_back(sample.nmse);
      errors.push_back(std::move(of_samples));
      const CrossingCounters row = Row(*group[0], true);
      EXPECT_EQ(row.nmse_samples, 3);
      EXPECT_EQ(row.device_tensors, on_device ? kFrames : 0);
    }
    ASSERT_EQ(errors[0].size(), 3);
    EXPECT_GT(errors[0][0], 0);
    EXPECT_EQ(errors[1], errors[0]) << codec;  // the same bits
    // Three tensors in full and seven frames, of which the longest has nine bits an element.
    const size_t tensor = size_t{600} * 256 * 2;
    EXPECT_EQ(crossed[0], 0);
    EXPECT_GE(crossed[1], 3 * tensor);
    EXPECT_LT(crossed[1], 3 * tensor + kFrames * tensor * 6 / 10);
  }
}

TEST_P(DeviceCoderTest, WhatHasNoKernelsAndWhatIsRawIsCopiedToTheDevice) {
  for (const char* codec : {"qsgd4", "int4-b64+ef21", "none"}) {
    EXPECT_FALSE(coder->Encodes(codec) && std::string_view(codec) != "none") << codec;
    std::vector<std::byte> x = Values(size_t{600} * 256), y(x.size()), z(x.size());
    const Cluster cluster(GetParam(), 2);
    const auto group = cluster.MakeGroup("pp", With(codec));
    Outcome sends[2], recvs[2];
    group[1]->Recv(Wire(y, true), 0, 0, recvs[0].done());
    group[1]->Recv(Wire(z, false), 0, 1, recvs[1].done());
    for (int i : {0, 1}) group[0]->Send(Wire(x, false), 1, i, sends[i].done());
    for (const Outcome& recv : recvs) ASSERT_EQ(recv.Wait(), absl::OkStatus()) << codec;
    for (const Outcome& send : sends) ASSERT_EQ(send.Wait(), absl::OkStatus()) << codec;
    EXPECT_EQ(Row(*group[1], false).device_tensors, 0);
    if (std::string_view(codec) == "none") {
      EXPECT_TRUE(y == x);
    } else if (std::string_view(codec) == "int4-b64+ef21") {
      EXPECT_TRUE(y == z);
    }
  }
}

TEST_P(DeviceCoderTest, AFailureOfTheDeviceGivesTheMessageUp) {
  const Cluster cluster(GetParam(), 2);
  const auto group = cluster.MakeGroup("pp", With("int8-b64"));
  std::vector<std::byte> bad = Values(256 * 256), x = bad, y(bad.size());
  bad[600] = std::byte{0x80};  // element 300: infinity
  bad[601] = std::byte{0x7F};
  Outcome sends[3], recvs[3];
  for (Outcome& recv : recvs) group[1]->Recv(Wire(y, false), 0, 0, recv.done());
  group[0]->Send(Wire(bad, true), 1, 0, sends[0].done());
  EXPECT_EQ(sends[0].Wait().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(recvs[0].Wait().message()), HasSubstr("gave it up"));
  coder = std::make_shared<DeviceCoder>(runtime, &MonotonicClock());  // without a slot
  runtime->exhausted = true;
  group[0]->Send(Wire(x, true), 1, 0, sends[1].done());
  EXPECT_EQ(sends[1].Wait().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(recvs[1].Wait().ok());
  runtime->exhausted = false;
  group[0]->Send(Wire(x, true), 1, 0, sends[2].done());
  EXPECT_EQ(sends[2].Wait(), absl::OkStatus());
  EXPECT_EQ(recvs[2].Wait(), absl::OkStatus());
}

TEST_P(DeviceCoderTest, ManyAtOnceAndNothingIsLeft) {
  {
    std::deque<std::vector<std::byte>> memory;
    std::deque<Outcome> outcomes;
    const Cluster cluster(GetParam(), 2);
    const auto group = cluster.MakeGroup("pp", With("minmax4-b64"));
    std::vector<std::byte> x = Values(size_t{800} * 256);
    for (int i = 0; i < 16; ++i) {
      auto& y = memory.emplace_back(x.size());
      group[1]->Recv(Wire(y, i % 2 == 0), 0, i % 3, outcomes.emplace_back().done());
      group[0]->Send(Wire(x, i % 4 < 2), 1, i % 3, outcomes.emplace_back().done());
    }
    for (const Outcome& outcome : outcomes) ASSERT_EQ(outcome.Wait(), absl::OkStatus());
    for (const auto& y : memory) EXPECT_TRUE(y == memory[0]);
  }
  coder.reset();
  for (int i = 0; i < 200 && runtime->live > 0; ++i) absl::SleepFor(absl::Milliseconds(5));
  EXPECT_EQ(runtime->live, 0);
}

TEST_P(DeviceCoderTest, ANodeThatEndsWaitsForTheDevice) {
  runtime->held = true;  // the device has not come to the end of its work
  Outcome send, recv;
  std::vector<std::byte> x = Values(size_t{600} * 256), y(x.size());
  std::thread device;
  {
    const Cluster cluster(GetParam(), 2);
    const auto group = cluster.MakeGroup("pp", With("int8-b64"));
    group[1]->Recv(Wire(y, false), 0, 0, recv.done());
    group[0]->Send(Wire(x, true), 1, 0, send.done());
    device = std::thread([this] {
      absl::SleepFor(absl::Milliseconds(50));
      runtime->held = false;
      runtime->held.notify_all();
    });
  }
  device.join();
  EXPECT_TRUE(send.finished());  // x is the caller's again
  EXPECT_FALSE(send.Wait().ok() && recv.Wait().ok());
}

INSTANTIATE_TEST_SUITE_P(Transports, DeviceCoderTest, testing::ValuesIn(AllTransports()),
                         TransportName);

}  // namespace
}  // namespace longhaul
