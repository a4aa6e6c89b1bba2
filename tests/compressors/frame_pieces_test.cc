// Frames made and read piece by piece are those of Codec::Encode and Decode, byte for byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compressors/frame/frame_pieces.h"
#include "compressors/numbers/crc32c.h"
#include "tests/compressors/tensors.h"

namespace longhaul {
namespace {

// Below, at and above pieces; rows that end in short blocks; one row with and without.
const std::vector<Shape> kShapes = {{1, 1},     {3, 100},    {1, 300001},
                                    {5, 70003}, {300, 1024}, {2100, 130}};

class FramePiecesTest : public testing::TestWithParam<std::string> {
 protected:
  static OwnedTensor Input(Shape shape, DType dtype) {
    return OwnedTensor(Draw(Distribution::kGaussian, shape.elements(), 3), shape, dtype);
  }
  const std::shared_ptr<const Codec> codec_ = MakeCodec(GetParam()).value();
};

TEST_P(FramePiecesTest, MakesTheFrameOfEncodeAndReadsItInBothOrders) {
  for (const Shape shape : kShapes) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const OwnedTensor x = Input(shape, dtype);
      std::vector<std::byte> whole(codec_->MaxFrameBytes(shape, dtype));
      whole.resize(codec_->Encode(x.view(), 9, nullptr, whole).value());
      OwnedTensor want(shape, dtype);
      ASSERT_TRUE(codec_->Decode(whole, nullptr, want.mutable_view()).ok());

      std::unique_ptr<FramePieces> pieces = codec_->Pieces(shape, dtype);
      ASSERT_NE(pieces, nullptr);
      ASSERT_EQ(pieces->frame_bytes(), whole.size());
      const std::vector<FramePart> order = StreamOrder(*pieces);
      std::vector<std::byte> frame(whole.size(), std::byte{0xA5}), far(whole.size());
      OwnedTensor streamed(shape, dtype), plain(shape, dtype);
      PieceReader reader(codec_->Pieces(shape, dtype), PieceReader::Order::kStream, far,
                         streamed.mutable_view());
      PieceWriter writer(std::move(pieces), x.view(), frame);
      auto part = order.begin();
      size_t arrived = 0;
      for (size_t final = 0; final < frame.size();) {
        final = writer.Next().value();
        for (; part != order.end() && arrived + part->size() <= final; ++part) {
          std::copy_n(frame.begin() + part->begin, part->size(), far.begin() + part->begin);
          arrived += part->size();
          ASSERT_TRUE(reader.Reach(arrived).ok()) << shape.rows << "x" << shape.cols;
        }
        ASSERT_EQ(arrived, final);
      }
      EXPECT_TRUE(frame == whole) << shape.rows << "x" << shape.cols;
      EXPECT_TRUE(streamed.bytes == want.bytes);
      EXPECT_EQ(FrameCrc(frame), Crc32c(frame));

      PieceReader in_order(codec_->Pieces(shape, dtype), PieceReader::Order::kFrame, whole,
                           plain.mutable_view());
      for (size_t at = 0; at < whole.size();) {
        at = std::min(whole.size(), at + 70001);
        ASSERT_TRUE(in_order.Reach(at).ok());
      }
      EXPECT_TRUE(plain.bytes == want.bytes);
    }
  }
}

TEST_P(FramePiecesTest, RefusesWhatIsNotFiniteAndEveryAlteredSection) {
  const Shape shape{640, 1024};
  OwnedTensor x = Input(shape, DType::kF32);
  StoreElement(NAN, x.bytes.data(), DType::kF32, 600 * 1024);
  std::vector<std::byte> frame(codec_->MaxFrameBytes(shape, DType::kF32));
  {
    PieceWriter writer(codec_->Pieces(shape, DType::kF32), x.view(), frame);
    ASSERT_TRUE(writer.Next().ok());
    ASSERT_TRUE(writer.Next().ok());
    EXPECT_EQ(writer.Next().status().code(), absl::StatusCode::kInvalidArgument);
  }
  StoreElement(1, x.bytes.data(), DType::kF32, 600 * 1024);
  ASSERT_EQ(codec_->Encode(x.view(), 0, nullptr, frame).value(), frame.size());
  const auto pieces = codec_->Pieces(shape, DType::kF32);
  std::vector<size_t> places = {0, 5, 13, 30, 57};
  for (const FramePart& part : StreamOrder(*pieces)) places.push_back(part.end - 1);
  for (const size_t at : places) {
    frame[at] ^= std::byte{4};
    OwnedTensor y(shape, DType::kF32);
    PieceReader reader(codec_->Pieces(shape, DType::kF32), PieceReader::Order::kStream, frame,
                       y.mutable_view());
    EXPECT_EQ(reader.Reach(frame.size()).code(), absl::StatusCode::kDataLoss) << "byte " << at;
    frame[at] ^= std::byte{4};
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, FramePiecesTest,
                         testing::Values("identity", "bf16", "fp16", "int8-b64", "int8-b4096",
                                         "int4-b64", "int4-b64-h64", "minmax3-b64", "fp8-e4m3-g16",
                                         "mxfp4-h32"),
                         [](const auto& codec) {
                           std::string name = codec.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

TEST(FramePieces, AreNotOfCodecsThatLookAtTheWholeTensor) {
  for (const char* name : {"int8-b64+sr", "int4-b64+ef", "topk-64of4096+fp16", "stat4", "nvfp4"}) {
    EXPECT_EQ(MakeCodec(name).value()->Pieces({4, 4096}, DType::kF32), nullptr) << name;
  }
}

}  // namespace
}  // namespace longhaul
