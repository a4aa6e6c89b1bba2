// What no caller should pass: tensors that cannot be there, buffers at the edge of what is mapped.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "compressors/frame/frame.h"
#include "tests/compressors/tensors.h"

namespace longhaul {
namespace {

// Memory that ends where nothing may be touched any more, and begins so.
class Fenced {
 public:
  explicit Fenced(size_t bytes) : bytes_(bytes), mapped_((bytes + 4095) / 4096 * 4096 + 8192) {
    void* at = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(at, MAP_FAILED);
    base_ = static_cast<std::byte*>(at);
    EXPECT_EQ(mprotect(base_ + 4096, mapped_ - 8192, PROT_READ | PROT_WRITE), 0);
  }
  ~Fenced() { munmap(base_, mapped_); }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;

  std::span<std::byte> AtEnd() { return {base_ + mapped_ - 4096 - bytes_, bytes_}; }
  std::span<std::byte> AtBegin() { return {base_ + 4096, bytes_}; }
  // Nothing may be read or written there.
  std::byte* nowhere() { return base_; }

 private:
  const size_t bytes_, mapped_;
  std::byte* base_;
};

class BadInput : public testing::TestWithParam<std::string> {
 protected:
  std::shared_ptr<const Codec> codec_ = *MakeCodec(GetParam());
};

// Tensors of 2^32 elements and more into a frame that cannot hold them: one status, nothing read,
// nothing written, no memory taken for them.
TEST_P(BadInput, HugeTensorsAreRefusedBeforeAnythingIsTouched) {
  Fenced fence(1);
  std::vector<std::byte> room(1000, std::byte{0x5A});
  const auto untouched = room;
  const auto small = codec_->NewState({4, 16});
  for (Shape shape : {Shape{1, uint64_t{1} << 32}, Shape{uint64_t{1} << 32, 16},
                      Shape{uint64_t{1} << 20, uint64_t{1} << 20}, Shape{1, uint64_t{1} << 55},
                      Shape{uint64_t{1} << 32, uint64_t{1} << 32}, Shape{UINT64_MAX, UINT64_MAX},
                      Shape{UINT64_MAX, 1}, Shape{1, UINT64_MAX}}) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      const ConstTensor x = {fence.nowhere(), dtype, shape};
      const absl::Status status = codec_->Encode(x, 1, small.get(), room).status();
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << shape.rows << " " << shape.cols << status;
      EXPECT_EQ(room, untouched);
    }
  }
}

// A small frame that says it holds a huge tensor, given a huge tensor to fill.
TEST_P(BadInput, FramesOfHugeTensorsAreRefusedBeforeAnythingIsTouched) {
  Fenced fence(1);
  auto frame =
      *EncodeToFrame(*codec_, OwnedTensor(Draw(Distribution::kGaussian, 64, 1), {4, 16}).view());
  for (Shape shape :
       {Shape{1, uint64_t{1} << 40}, Shape{uint64_t{1} << 40, 16},
        Shape{uint64_t{1} << 32, uint64_t{1} << 32}, Shape{0, 16}, Shape{UINT64_MAX, UINT64_MAX}}) {
    FrameHeader header = PeekHeader(frame);
    header.shape = shape;
    SealFrame(header, frame);
    const Tensor x = {fence.nowhere(), DType::kF32, shape};
    const absl::Status status = codec_->Decode(frame, nullptr, x);
    // A dense frame of powersgd for a shape that has factors is one of another rank.
    EXPECT_TRUE(absl::IsDataLoss(status) || absl::IsInvalidArgument(status))
        << shape.rows << " " << shape.cols << " " << status;
    EXPECT_FALSE(DecodeFrame(frame, x).ok());
  }
}

// Input, frame and output flush with unmapped memory on either side, at odd addresses too.
TEST_P(BadInput, NothingBeyondTheSpansIsTouched) {
  for (Shape shape : {Shape{1, 1}, Shape{3, 77}, Shape{1, 4099}, Shape{65, 67}}) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      const OwnedTensor x(Draw(Distribution::kLaplace, shape.elements(), 2), shape, dtype);
      const auto want = *EncodeToFrame(*codec_, x.view());
      Fenced in(x.bytes.size()), out(x.bytes.size());
      Fenced frame(codec_->MaxFrameBytes(shape, dtype));
      for (bool end : {false, true}) {
        const auto from = end ? in.AtEnd() : in.AtBegin();
        const auto to = end ? frame.AtEnd() : frame.AtBegin();
        std::memcpy(from.data(), x.bytes.data(), from.size());
        const auto state = codec_->NewState(shape);
        const auto bytes = codec_->Encode({from.data(), dtype, shape}, 1, state.get(), to);
        ASSERT_TRUE(bytes.ok()) << bytes.status();
        ASSERT_EQ(*bytes, want.size());
        EXPECT_EQ(std::memcmp(to.data(), want.data(), want.size()), 0);
        Fenced received(want.size());
        const auto bytes_in = end ? received.AtEnd() : received.AtBegin();
        std::memcpy(bytes_in.data(), want.data(), want.size());
        const auto y = end ? out.AtEnd() : out.AtBegin();
        const auto mirror = codec_->NewDecoderState(shape);
        ASSERT_EQ(codec_->Decode(bytes_in, mirror.get(), {y.data(), dtype, shape}),
                  absl::OkStatus());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Catalog, BadInput, testing::ValuesIn(TestedNames()),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace longhaul
