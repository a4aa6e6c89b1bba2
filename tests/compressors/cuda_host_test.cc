// The CUDA kernels' own text on the host (cuda_host_team.h): frames and decoded values are those of
// the CPU's codecs, bit for bit. Runs everywhere; no GPU and no nvcc.
#include <random>

#include "compressors/numbers/small_floats.h"
#include "tests/compressors/cuda_frames.h"
#include "tests/compressors/cuda_host_memory.h"
#include "tests/compressors/cuda_selection_cases.h"

namespace longhaul {
namespace {

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

// Widths of models, of which 1024, what a warp takes at once, is no divisor: where blocks divide the
// row the tensor is one row, and no access is narrower than in a tensor as wide as the table of docs/cuda.md.
TEST_P(CudaHostTest, WidthsOfModelsTakeNoMoreAccesses) {
  const auto accesses = [this](Shape shape, DType dtype) {
    const auto values = Draw(Distribution::kGaussian, shape.elements(), 16);
    host_accesses = 0;
    pair_.ExpectEqual(OwnedTensor(values, shape, dtype).view());
    return static_cast<double>(host_accesses) / static_cast<double>(shape.elements());
  };
  const auto divided = [](size_t width) {  // by the blocks of the name
    const std::string& name = GetParam();
    if (name.find("4096") != std::string::npos || name.find("topk") != std::string::npos)
      return false;
    return name.find("g128") == std::string::npos || width % 128 == 0;
  };
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const double wide = accesses({4, 4096}, dtype);
    for (const Shape shape : {Shape{32, 512}, Shape{64, 576}, Shape{32, 768}, Shape{16, 1024}}) {
      const double here = accesses(shape, dtype);
      if (!divided(shape.cols)) continue;
      EXPECT_LE(here, wide * 1.001) << shape.cols;
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

TEST_P(CudaHostTest, EveryMagnitude) { ExpectAlikeInEveryMagnitude(pair_, 60, 1024); }

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

TEST_P(CudaHostTest, HostilePayloads) { ExpectAlikeOfHostilePayloads(pair_, {3, 500}, 60); }

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

class CudaHostSelection : public testing::Test {
 protected:
  void SetUp() override { host_order = HostOrder::kShuffled; }
  void TearDown() override { host_order = HostOrder::kAscending; }
  HostMemory memory_;
};
TEST_F(CudaHostSelection, ManyReachTheBoundOrAreEqual) {
  ExpectManyReachTheBoundOrAreEqual(memory_);
}
TEST_F(CudaHostSelection, PiecesOfEveryKind) { ExpectPiecesOfEveryKind(memory_); }
TEST_F(CudaHostSelection, ManyThatAreNotFinite) { ExpectManyThatAreNotFinite(memory_); }

TEST(DeviceCatalog, NamesWithoutKernelsAreNotFound) {
  // The last but one: TopK has kernels where its values have.
  for (const char* name : {"q4_0", "stat4", "sign1", "tah4-g64", "randk-64of4096+bf16",
                           "topk-64of4096+stat2", "int5-b64"}) {
    EXPECT_EQ(MakeDeviceCodec(name, HostDevice()).status().code(), absl::StatusCode::kNotFound)
        << name;
  }
  EXPECT_EQ((*MakeDeviceCodec("2x", HostDevice()))->name(), "2x");
}

}  // namespace
}  // namespace longhaul
