// The CUDA kernels' own text on the host (cuda_host_team.h): frames and decoded values are those of
// the CPU's codecs, bit for bit. Runs everywhere; no GPU and no nvcc.
#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "compressors/small_floats.h"
#include "tests/compressors/cuda_frames.h"
#include "tests/compressors/cuda_host_team.h"

namespace longhaul {
namespace {

class HostMemory final : public DeviceMemory {
 public:
  std::byte* Device(int place, size_t bytes) override { return device_[place].Make(bytes); }
  std::byte* Host(size_t bytes) override { return host_.Make(bytes); }
  void Upload(const void* from, std::byte* to, size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void Download(const std::byte* from, void* to, size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void Wait() override {}
  bool FencesStand() override {
    return device_[0].Stands() && device_[1].Stands() && host_.Stands();
  }
  const DeviceApi& api() override { return HostDevice(); }
  CudaStream stream() override { return nullptr; }

 private:
  // Memory aligned as a GPU's, and a fence behind it that must keep its value.
  struct Piece {
    std::byte* Make(size_t bytes) {
      size = bytes;
      memory.assign(bytes + kFence + 256, kMark);
      begin = memory.data() + (256 - reinterpret_cast<uintptr_t>(memory.data()) % 256);
      return begin;
    }
    bool Stands() const {
      return begin == nullptr || std::all_of(begin + size, begin + size + kFence,
                                             [](std::byte b) { return b == kMark; });
    }
    static constexpr std::byte kMark{0x5A};
    static constexpr size_t kFence = 64;
    std::vector<std::byte> memory;
    std::byte* begin = nullptr;
    size_t size = 0;
  };
  std::array<Piece, 2> device_;
  Piece host_;
};

class CudaHostTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { host_order = HostOrder::kAscending; }
  HostMemory memory_;
  DevicePair pair_{GetParam(), memory_};
};

TEST_P(CudaHostTest, SizesAndDTypes) {
  for (Shape shape :
       {Shape{1, 1}, Shape{1, 2}, Shape{1, 15}, Shape{1, 63}, Shape{1, 64}, Shape{1, 65},
        Shape{1, 1000}, Shape{1, 1024}, Shape{1, 4095}, Shape{1, 4096}, Shape{1, 4097},
        Shape{3, 130}, Shape{17, 192}, Shape{5, 97}, Shape{2, 8192}, Shape{1, 20'003}}) {
    const auto values = Draw(Distribution::kStudentT4, shape.elements(), 11);
    for (DType dtype : kDTypes) {
      ASSERT_NO_FATAL_FAILURE(pair_.ExpectEqual(OwnedTensor(values, shape, dtype).view()))
          << shape.rows << " x " << shape.cols << " of dtype " << int(dtype);
    }
  }
}

// No kernel relies on the order in which a GPU happens to run its threads.
TEST_P(CudaHostTest, AnyOrderOfThreads) {
  for (HostOrder order : {HostOrder::kDescending, HostOrder::kShuffled}) {
    host_order = order;
    for (Shape shape : {Shape{1, 4096 + 1024 + 65}, Shape{7, 97}, Shape{4, 4096}}) {
      const auto values = Draw(Distribution::kOutlier, shape.elements(), 12);
      for (DType dtype : {DType::kF32, DType::kBF16}) {
        ASSERT_NO_FATAL_FAILURE(pair_.ExpectEqual(OwnedTensor(values, shape, dtype).view()));
      }
    }
  }
}

TEST_P(CudaHostTest, TensorsThatAreAlignedAsTheirElementsOnly) {
  for (size_t skew : {1, 3, 4}) {
    for (Shape shape : {Shape{1, 2049}, Shape{2, 1024}}) {
      const auto values = Draw(Distribution::kLaplace, shape.elements(), 13);
      for (DType dtype : kDTypes) {
        ASSERT_NO_FATAL_FAILURE(
            pair_.ExpectEqual(OwnedTensor(values, shape, dtype).view(), 18, skew));
      }
    }
  }
}

// Magnitudes from anywhere in the range, signed zeros and denormals among them.
TEST_P(CudaHostTest, EveryMagnitude) {
  std::mt19937 rng(23);
  std::vector<float> values(1024);
  for (int tensor = 0; tensor < 60; ++tensor) {
    const uint32_t top = rng() % 255, spread = 1 + rng() % 40;
    for (float& v : values) {
      const uint32_t low = top > spread ? top - spread : 0;
      const uint32_t exponent = low + rng() % (top - low + 1);
      const uint32_t sign = tensor % 5 == 0 ? 0 : rng() << 31;
      v = FromBits(sign | exponent << 23 | (rng() & 0x7FFFFF));
      if (tensor % 7 == 0 && rng() % 3 == 0) v = FromBits(rng() << 31);
    }
    ASSERT_NO_FATAL_FAILURE(pair_.ExpectEqual({values.data(), DType::kF32, {1, values.size()}}))
        << "tensor " << tensor;
  }
}

TEST_P(CudaHostTest, ConstantsTiesAndZeros) {
  std::vector<float> values;
  for (int block = 0; block < 32; ++block) {
    for (int i = 0; i < 64; ++i) {
      const float tie = (static_cast<float>(block * 8 + i / 4) - 127) / 2;
      values.push_back(block % 4 == 3 ? 0.0f : block % 8 == 1 ? 3.25f : i == 63 ? 127.0f : tie);
    }
  }
  pair_.ExpectEqual({values.data(), DType::kF32, {1, values.size()}});
  std::vector<float> zeros(300, 0.0f);
  pair_.ExpectEqual({zeros.data(), DType::kF32, {3, 100}});
}

// What the statistical codecs measure a second time.
TEST_P(CudaHostTest, FirstElementsFarFromAllOthers) {
  auto values = Draw(Distribution::kGaussian, 3 * 5000, 16);
  for (size_t i = 0; i < 64; ++i) values[i] = values[10'000 + i] = 300;
  for (Shape shape : {Shape{1, 15'000}, Shape{3, 5000}}) {
    ASSERT_NO_FATAL_FAILURE(pair_.ExpectEqual({values.data(), DType::kF32, shape})) << shape.rows;
  }
}

TEST_P(CudaHostTest, NaNAndInfAreRefusedInEveryPlace) {
  for (size_t at : {0, 7, 8, 63, 64, 200, 255, 1023, 1024, 1100}) {
    for (uint32_t bits : {0x7F800000u, 0xFF800000u, 0x7F800001u, 0xFFFFFFFFu}) {
      std::vector<float> values(1101, 1.0f);
      values[at] = FromBits(bits);
      ASSERT_NO_FATAL_FAILURE(pair_.ExpectEqual({values.data(), DType::kF32, {1, values.size()}}))
          << "at " << at;
    }
  }
}

// Bytes that pass the checksum but that no encoder wrote: refused as on the CPU, or decoded alike.
TEST_P(CudaHostTest, HostilePayloads) {
  const Shape shape = {3, 500};
  const auto values = Draw(Distribution::kGaussian, shape.elements(), 14);
  const auto frame = *EncodeToFrame(pair_.cpu(), OwnedTensor(values, shape).view(), 5);
  std::mt19937 rng(31);
  for (int round = 0; round < 60; ++round) {
    auto bad = frame;
    for (int i = 0; i < 1 + round % 5; ++i) {
      const size_t at = kFrameHeaderBytes + rng() % (bad.size() - kFrameHeaderBytes);
      bad[at] = round % 2 == 0 ? std::byte{0xFF} : static_cast<std::byte>(rng());
    }
    AddFrameFlags(0, bad);  // renews the checksum
    ASSERT_NO_FATAL_FAILURE(pair_.ExpectDecodesAlike(bad, shape, DType::kF32));
  }
}

TEST_P(CudaHostTest, BadArguments) {
  const Shape shape = {2, 100};
  const auto values = Draw(Distribution::kGaussian, shape.elements(), 15);
  const OwnedTensor x(values, shape);
  const auto frame = *EncodeToFrame(pair_.cpu(), x.view(), 5);
  OwnedTensor y(shape, DType::kF32), other({2, 99}, DType::kF32);
  for (size_t bytes : {size_t{0}, size_t{63}, frame.size() - 1}) {
    EXPECT_EQ(pair_.Decode(std::span(frame).first(bytes), y, 0).code(),
              absl::StatusCode::kDataLoss);
  }
  EXPECT_EQ(pair_.Decode(frame, other, 0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(pair_.Encode({nullptr, DType::kF32, {0, 5}}, 1, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
  std::byte small[64];
  EXPECT_EQ(pair_.device().EnqueueEncode(x.view(), 1, {small, 64, small, 64}, nullptr).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      pair_.device().EnqueueDecode(frame, {small, 64, small, 8}, y.mutable_view(), nullptr).code(),
      absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Codecs, CudaHostTest, testing::ValuesIn(DeviceTestNames()),
                         [](const auto& info) { return TestName(info.param); });

// What decides how a selection kernel finds its elements: how many reach its first bound, where
// they are, how many are equal, how long a chunk is.
std::vector<std::vector<float>> SelectionPatterns(size_t elements) {
  const auto drawn = Draw(Distribution::kGaussian, elements, 19);
  std::vector<float> zeros(elements, 0.0f), equal(elements, -0.75f),
      few = zeros, ramp = zeros, crowd = drawn, coarse = drawn, last = equal;
  for (size_t i = 0; i < elements; ++i) {
    if (i % 611 == 5) few[i] = drawn[i];
    ramp[i] = static_cast<float>(i % 3000) / 4096 - 0.3f;
    if (i % 4096 >= 1000 && i % 4096 < 1700) crowd[i] = 5 + 0.001f * drawn[i];
    coarse[i] = std::round(drawn[i]);
  }
  last.back() = 0.5f;
  last[elements / 2] = 1.0f;
  return {zeros, equal, few, ramp, crowd, coarse, last, drawn};
}

TEST(CudaHostSelection, ManyReachTheBoundOrAreEqual) {
  host_order = HostOrder::kShuffled;
  HostMemory memory;
  for (const char* name : {"topk-64of4096+none", "topk-256of4096+none", "topk-32of512+none",
                           "topk-5of1000+none", "topk-256of65536+none", "topk-300of65536+none",
                           "topk-6of128+none", "topk-1of2+none", "topk-4000of4096+none"}) {
    DevicePair pair(name, memory);
    const bool long_chunks = std::string_view(name).find("65536") != std::string_view::npos;
    const Shape shape = long_chunks ? Shape{1, 66'000} : Shape{2, 5000};
    int pattern = 0;
    for (const auto& values : SelectionPatterns(shape.elements())) {
      for (DType dtype : kDTypes) {
        ASSERT_NO_FATAL_FAILURE(pair.ExpectEqual(OwnedTensor(values, shape, dtype).view()))
            << name << " of dtype " << int(dtype) << ", pattern " << pattern;
      }
      ++pattern;
    }
  }
  host_order = HostOrder::kAscending;
}

TEST(CudaHostSelection, WindowsOfEveryKind) {
  host_order = HostOrder::kShuffled;
  HostMemory memory;
  for (const char* name :
       {"randk-1of4+none", "randk-2of2+none", "randk-5of5000+none", "randk-4999of5000+none",
        "randk-4097of9000+none", "randk-65536of65536+none", "randk-65535of65536+none",
        "randk-7of16384+none", "topk-7of16384+none"}) {
    DevicePair pair(name, memory);
    for (Shape shape : {Shape{2, 16'384}, Shape{5, 4101}, Shape{1, 65'536}, Shape{1, 70'001}}) {
      const auto values = Draw(Distribution::kLaplace, shape.elements(), 20);
      const OwnedTensor x(values, shape, DType::kBF16);
      ASSERT_NO_FATAL_FAILURE(pair.ExpectEqual(x.view(), 7, 1)) << name << ", " << shape.cols;
      ASSERT_NO_FATAL_FAILURE(pair.ExpectEqual({values.data(), DType::kF32, shape}, 8));
    }
  }
  host_order = HostOrder::kAscending;
}

// Refused, and nothing is written beyond what is kept: the fence would tell.
TEST(CudaHostSelection, ManyThatAreNotFinite) {
  HostMemory memory;
  for (const char* name :
       {"topk-64of4096+none", "topk-1of2+none", "topk-30of100+none", "topk-410of4096+none"}) {
    DevicePair pair(name, memory);
    for (uint32_t bits : {0x7F800000u, 0x7FFFFFFFu, 0xFF800001u}) {
      const std::vector<float> values(9000, FromBits(bits));
      for (DType dtype : kDTypes) {
        ASSERT_NO_FATAL_FAILURE(pair.ExpectEqual(OwnedTensor(values, {1, 9000}, dtype).view()));
      }
    }
  }
}

TEST(DeviceCatalog, NamesWithoutKernelsAreNotFound) {
  EXPECT_EQ(MakeDeviceCodec("q4_0", HostDevice()).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(MakeDeviceCodec("int5-b64", HostDevice()).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ((*MakeDeviceCodec("2x", HostDevice()))->name(), "2x");
}

}  // namespace
}  // namespace longhaul
