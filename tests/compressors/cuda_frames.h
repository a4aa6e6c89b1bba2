#pragma once

#include <gtest/gtest.h>

#include <random>

#include "compressors/cuda/cuda_codec.h"
#include "compressors/frame/frame.h"
#include "compressors/numbers/small_floats.h"
#include "tests/compressors/tensors.h"

// What the tests with and without a GPU share: a codec on a device beside the same on the CPU.
namespace longhaul {

constexpr DType kDTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

// Memory that kernels may reach, and the page-locked memory beside it. `fence` bytes behind it are
// of a known value and must keep it.
class DeviceMemory {
 public:
  static constexpr int kPlaces = 5;
  virtual ~DeviceMemory() = default;
  // 256-byte aligned, until the next call for the same place; place < kPlaces.
  virtual std::byte* Device(int place, size_t bytes) = 0;
  virtual std::byte* Host(size_t bytes) = 0;
  virtual void Upload(const void* from, std::byte* to, size_t bytes) = 0;
  virtual void Download(const std::byte* from, void* to, size_t bytes) = 0;
  virtual void Wait() = 0;
  // Whether something was written behind what was asked for.
  virtual bool FencesStand() = 0;
  virtual const DeviceApi& api() = 0;
  virtual CudaStream stream() = 0;
};

// Codecs of every family with kernels, and the forms that are names of their own.
inline std::vector<std::string> DeviceTestNames() {
  std::vector<std::string> names = DeviceCodecNames();
  for (const char* name :
       {"int8-b64+sr", "int8-b4096+sr", "int4-b64+sr", "int4-b64-h64+sr", "minmax2-b64+sr",
        "minmax3-b64+sr", "minmax4-b64-h64+sr", "mxfp4+sr", "mxfp4-h32+sr", "topk-64of4096+fp16",
        "topk-410of4096+int4-b64", "topk-3of7+none", "topk-100of9000+bf16",
        "topk-1024of4096+minmax4-b64", "topk-64of4096+mxfp4"}) {
    names.emplace_back(name);
  }
  return names;
}

class DevicePair {
 public:
  DevicePair(const std::string& name, DeviceMemory& memory)
      : cpu_(*MakeCodec(name)), device_(*MakeDeviceCodec(name, memory.api())), memory_(memory) {}

  // The device's frame, or what it says; `skew`: elements between an aligned address and x.
  absl::StatusOr<std::vector<std::byte>> Encode(ConstTensor x, uint64_t seed, size_t skew) {
    const size_t skew_bytes = skew * BytesPerElement(x.dtype);
    const size_t bytes = x.shape.elements() * BytesPerElement(x.dtype);
    std::byte* on_device = memory_.Device(0, bytes + skew_bytes) + skew_bytes;
    if (bytes > 0) memory_.Upload(x.values, on_device, bytes);
    const DeviceSlot slot = Slot(x.shape, x.dtype);
    const ConstTensor there = {on_device, x.dtype, x.shape};
    if (auto s = device_->EnqueueEncode(there, seed, slot, memory_.stream()); !s.ok()) return s;
    memory_.Wait();
    const auto frame_bytes = device_->FinishEncode(there, seed, slot);
    EXPECT_TRUE(memory_.FencesStand());
    if (!frame_bytes.ok()) return frame_bytes.status();
    return std::vector<std::byte>(slot.host, slot.host + *frame_bytes);
  }

  absl::Status Decode(std::span<const std::byte> frame, OwnedTensor& y, size_t skew) {
    const size_t skew_bytes = skew * BytesPerElement(y.dtype);
    std::byte* on_device = memory_.Device(0, y.bytes.size() + skew_bytes) + skew_bytes;
    const DeviceSlot slot = Slot(y.shape, DType::kF32);
    const Tensor there = {on_device, y.dtype, y.shape};
    if (auto s = device_->EnqueueDecode(frame, slot, there, memory_.stream()); !s.ok()) return s;
    memory_.Wait();
    const absl::Status status = device_->FinishDecode(slot);
    EXPECT_TRUE(memory_.FencesStand());
    memory_.Download(on_device, y.bytes.data(), y.bytes.size());
    return status;
  }

  // Both accept x with equal frames and decode alike into every dtype, or refuse it alike.
  void ExpectEqual(ConstTensor x, uint64_t seed = 17, size_t skew = 0) {
    const auto want = EncodeToFrame(*cpu_, x, seed);
    const auto got = Encode(x, seed, skew);
    ASSERT_EQ(want.status(), got.status());
    if (!want.ok()) return;
    ASSERT_EQ(want->size(), got->size());
    for (size_t i = 0; i < want->size(); ++i) ASSERT_EQ((*want)[i], (*got)[i]) << "byte " << i;
    for (DType to : kDTypes) ExpectDecodesAlike(*want, x.shape, to, skew);
  }
  void ExpectDecodesAlike(std::span<const std::byte> frame, Shape shape, DType to,
                          size_t skew = 0) {
    OwnedTensor want(shape, to), got(shape, to);
    const absl::Status wanted = cpu_->Decode(frame, nullptr, want.mutable_view());
    ASSERT_EQ(wanted, Decode(frame, got, skew));
    if (!wanted.ok()) return;
    const size_t size = BytesPerElement(to);
    for (size_t i = 0; i < want.bytes.size(); ++i) {
      ASSERT_EQ(want.bytes[i], got.bytes[i]) << "element " << i / size << " as dtype " << int(to);
    }
  }

  const Codec& cpu() const { return *cpu_; }
  const DeviceCodec& device() const { return *device_; }

 private:
  DeviceSlot Slot(Shape shape, DType dtype) {
    const SlotBytes needs = device_->Needs(shape, dtype);
    return {memory_.Host(needs.host), needs.host, memory_.Device(1, needs.device), needs.device};
  }

  const std::shared_ptr<const Codec> cpu_;
  const std::shared_ptr<const DeviceCodec> device_;
  DeviceMemory& memory_;
};

// Magnitudes from anywhere in the range, signed zeros and denormals among them.
inline void ExpectAlikeInEveryMagnitude(DevicePair& pair, int tensors, size_t elements) {
  std::mt19937 rng(23);
  std::vector<float> values(elements);
  for (int tensor = 0; tensor < tensors; ++tensor) {
    const uint32_t top = rng() % 255, spread = 1 + rng() % 40;
    for (float& v : values) {
      const uint32_t low = top > spread ? top - spread : 0;
      const uint32_t exponent = low + rng() % (top - low + 1);
      const uint32_t sign = tensor % 5 == 0 ? 0 : rng() << 31;
      v = FromBits(sign | exponent << 23 | (rng() & 0x7FFFFF));
      if (tensor % 7 == 0 && rng() % 3 == 0) v = FromBits(rng() << 31);
    }
    ASSERT_NO_FATAL_FAILURE(pair.ExpectEqual({values.data(), DType::kF32, {1, elements}}))
        << "tensor " << tensor;
  }
}

// Bytes that pass the checksum but that no encoder wrote: refused as on the CPU, or decoded alike.
inline void ExpectAlikeOfHostilePayloads(DevicePair& pair, Shape shape, int rounds) {
  const auto values = Draw(Distribution::kGaussian, shape.elements(), 14);
  const auto frame = *EncodeToFrame(pair.cpu(), OwnedTensor(values, shape).view(), 5);
  std::mt19937 rng(31);
  for (int round = 0; round < rounds; ++round) {
    auto bad = frame;
    for (int i = 0; i < 1 + round % 5; ++i) {
      const size_t at = kFrameHeaderBytes + rng() % (bad.size() - kFrameHeaderBytes);
      bad[at] = round % 2 == 0 ? std::byte{0xFF} : static_cast<std::byte>(rng());
    }
    AddFrameFlags(0, bad);  // renews the checksum
    ASSERT_NO_FATAL_FAILURE(pair.ExpectDecodesAlike(bad, shape, DType::kF32));
  }
}

}  // namespace longhaul
