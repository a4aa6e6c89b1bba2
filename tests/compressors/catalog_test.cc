// Names and ids, and frames that are well formed but lie.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "compressors/frame/frame.h"
#include "tests/compressors/tensors.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;

TEST(Catalog, UnknownNamesAreAnsweredWithTheNearestKnownOnes) {
  const std::pair<const char*, const char*> cases[] = {
      {"int4-b46", "nearest first: int4-b64, "},
      {"INT4-B64", "nearest first: "},
      {"", "nearest first: "},
      {"int4-b64+eff", "nearest first: int4-b64, "},
      {"+ef", "nearest first: "},
      {"int4-b64+ef+ef", "nearest first: int4-b64"},
      {"sparselocco", "nearest first: sparseloco, "},
      {"int5", "nearest first: int8-b64, int4-b64, "},
      {"minmax", "nearest first: minmax2-b64, minmax3-b64, "},
      {"powersgd", "nearest first: powersgd-r"},
      {"topk-64of4096+stat", "nearest first: topk-64of4096+stat2, "}};
  for (const auto& [name, nearest] : cases) {
    const auto codec = MakeCodec(name);
    ASSERT_TRUE(absl::IsNotFound(codec.status())) << name;
    const std::string message(codec.status().message());
    EXPECT_THAT(message, HasSubstr(nearest)) << name;
    EXPECT_THAT(message, HasSubstr("`longhaul codecs` lists all")) << name;
    EXPECT_LT(message.size(), 500u) << name;
  }
}

TEST(Catalog, IllFormedNamesSayWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"topk-0of4096+fp16", "k of C"},
      {"topk-5of4+fp16", "k of C"},
      {"topk-064of4096+fp16", "k of C"},
      {"topk-64of65537+fp16", "k of C"},
      {"randk-of+fp16", "k of C"},
      {"topk-64of4096", "codec for its values"},
      {"topk-64of4096+fp17", "for its values"},
      {"topk-64of4096+topk-2of4+fp16", "its values"},
      {"fp8-e4m3-g16+sr", "stochastically"},
      {"sign1+sr", "stochastically"},
      {"topk-64of4096+fp16+sr", "stochastically"},
      {"int4-b64+ef+ef95", "on a codec that has one"},
      {"16x+ef", "on a codec that has one"},
      {"int4-b64+ef+sr", "stochastically"},
      {"int4-b64+ef21+ef", "on a codec that has one"},
      {"powersgd-r4+ef", "on a codec that has one"},
      {"aqsgd4+ef21", "on a codec that has one"},
      {"demo-dct+ef95", "on a codec that has one"},
      {"topk-64of4096+aqsgd4", "its values"},
      {"topk-64of4096+demo-dct", "its values"},
      {"powersgd-r", "number from 1 to 64"},
      {"powersgd-r0", "number from 1 to 64"},
      {"powersgd-r65", "number from 1 to 64"},
      {"powersgd-r04", "number from 1 to 64"},
      {"gauss-", "NMSE from 1e-09 to 1"},
      {"gauss-0", "NMSE from 1e-09 to 1"},
      {"gauss-1.5", "NMSE from 1e-09 to 1"},
      {"gauss--0.1", "NMSE from 1e-09 to 1"},
      {"gauss-nan", "NMSE from 1e-09 to 1"},
      {"gauss-0.01x", "NMSE from 1e-09 to 1"},
      {"gauss-0.010", "is written gauss-0.01;"},
      {"gauss-1e-5", "is written gauss-1e-05;"},
      {"gauss-0.01+sr", "stochastically"},
      {"int4-b64+sat+ef", "before its end"},
      {"int4-b64+sat+sat", "twice"},
      {"int4-b64+sat+sr", "stochastically"}};
  for (const auto& [name, why] : cases) {
    const auto codec = MakeCodec(name);
    ASSERT_TRUE(absl::IsNotFound(codec.status())) << name << codec.status();
    EXPECT_THAT(std::string(codec.status().message()), HasSubstr(why)) << name;
    EXPECT_THAT(std::string(codec.status().message()), HasSubstr("nearest first")) << name;
  }
}

TEST(Catalog, AliasesSendTheBytesOfTheirParts) {
  const OwnedTensor x(Draw(Distribution::kLaplace, 10'000, 3), {1, 10'000});
  for (const CodecAlias& alias : CodecAliases()) {
    const auto named = *MakeCodec(alias.name);
    EXPECT_EQ(named->name(), alias.name);
    EXPECT_EQ(*EncodeToFrame(*named, x.view(), 5),
              *EncodeToFrame(**MakeCodec(alias.parts), x.view(), 5));
  }
}

// Never below the ratio that the name promises, header and alignment included, against bf16.
TEST(Catalog, PresetsKeepTheirRatio) {
  for (size_t n : {size_t{131'072}, size_t{1'000'003}}) {
    const OwnedTensor x(Draw(Distribution::kGaussian, n, 3), {1, n});
    for (const auto& [name, ratio] : {std::pair<const char*, double>{"2x", 2},
                                      {"4x", 4},
                                      {"16x", 16},
                                      {"16x-randk", 16},
                                      {"100x", 100}}) {
      const auto frame = *EncodeToFrame(**MakeCodec(name), x.view());
      EXPECT_GE(2.0 * static_cast<double>(n) / static_cast<double>(frame.size()), ratio) << name;
    }
  }
}

TEST(Catalog, FramesTellTheirCodec) {
  const OwnedTensor x(Draw(Distribution::kGaussian, 500, 3), {2, 250});
  for (const std::string& name : CodecNames()) {
    EXPECT_EQ(*NameOfFrame(*EncodeToFrame(**MakeCodec(name), x.view())), name);
  }
  EXPECT_EQ(*NameOfFrame(*EncodeToFrame(**MakeCodec("sparseloco"), x.view())),
            "topk-64of4096+stat2");
  EXPECT_EQ(*NameOfFrame(*EncodeToFrame(**MakeCodec("int4-b64+ef21"), x.view())), "int4-b64+ef21");
  const OwnedTensor square(Draw(Distribution::kGaussian, 10'000, 3), {100, 100});
  EXPECT_EQ(*NameOfFrame(*EncodeToFrame(**MakeCodec("powersgd-r3"), square.view())), "powersgd-r3");
}

// Everything that the specification names, alone and composed.
TEST(Catalog, EveryNameOfTheSpecificationIsACodec) {
  for (const char* name : {"sparseloco",
                           "dgc",
                           "onebit-adam",
                           "2x",
                           "4x",
                           "16x",
                           "16x-randk",
                           "100x",
                           "int4-b64+ef",
                           "int4-b64+ef95",
                           "int4-b64+ef21",
                           "int4-b64+sr",
                           "sparseloco+sat",
                           "powersgd-r1",
                           "powersgd-r2",
                           "powersgd-r4",
                           "diloco-x",
                           "demo-dct",
                           "gauss-0.01",
                           "gauss-3.55e-05",
                           "aqsgd2",
                           "aqsgd4",
                           "aqsgd8",
                           "topk-410of4096+fp16",
                           "topk-205of4096+int4-b64",
                           "topk-2048of4096+fp16",
                           "topk-41of4096+fp16+ef",
                           "topk-1of4096+fp16",
                           "topk-205of4096+fp16+ef21",
                           "mxfp4-h32+sr",
                           "minmax3-b64"}) {
    const auto codec = MakeCodec(name);
    ASSERT_TRUE(codec.ok()) << codec.status();
    EXPECT_EQ((*codec)->name(), name);
  }
}

TEST(Catalog, BoundsOfAnIdHoldForEveryCodecThatHasIt) {
  for (const std::string& name : TestedNames()) {
    const auto codec = *MakeCodec(name);
    for (Shape shape : {Shape{1, 1}, Shape{7, 300}, Shape{1, 20'000}}) {
      EXPECT_LE(codec->MaxFrameBytes(shape, DType::kF32),
                MaxFrameBytesOf(codec->id(), shape, DType::kF32))
          << name;
    }
  }
  EXPECT_EQ(MaxFrameBytesOf(0x7777, {1, 1}, DType::kF32), 0u);
}

TEST(Catalog, IdsAreFixedForEver) {
  const std::map<std::string, uint16_t> ids = {
      {"none", 0x01},          {"bf16", 0x02},           {"fp16", 0x03},
      {"int8-b64", 0x20},      {"int4-b64", 0x30},       {"int4-b64-h64", 0x31},
      {"minmax2-b64", 0x42},   {"minmax3-b64", 0x43},    {"minmax4-b64", 0x44},
      {"minmax5-b64", 0x45},   {"minmax6-b64", 0x46},    {"minmax7-b64", 0x47},
      {"minmax8-b64", 0x48},   {"fp8-e4m3-g16", 0x10},   {"fp8-e4m3-g128", 0x11},
      {"fp8-e5m2-g16", 0x12},  {"int8-b4096", 0x21},     {"minmax4-b64-h64", 0x4c},
      {"mxfp4", 0x50},         {"mxfp4-h32", 0x51},      {"e3m0-b64", 0x54},
      {"q8_0", 0x22},          {"q4_0", 0x32},           {"stat2", 0x80},
      {"stat4", 0x81},         {"stat8", 0x82},          {"sign1", 0x88},
      {"identity", 0x05},      {"dyn8-b4096", 0x23},     {"nvfp4", 0x52},
      {"tah4-g64", 0x60},      {"tah4-g32", 0x61},       {"qsgd4", 0x8c},
      {"qsgd8", 0x8d},         {"aqsgd2", 0x68},         {"aqsgd4", 0x69},
      {"aqsgd8", 0x6a},        {"gact4-g256", 0x6c},     {"diloco-x", 0x91},
      {"demo-dct", 0xa1},      {"minmax2-tensor", 0x49}, {"minmax3-tensor", 0x4a},
      {"minmax4-tensor", 0x4b}};
  EXPECT_EQ((*MakeCodec("powersgd-r3"))->id(), 0x90);
  EXPECT_EQ((*MakeCodec("gauss-0.01"))->id(), 0xb0);
  std::set<uint16_t> seen;
  for (const std::string& name : CodecNames()) {
    ASSERT_TRUE(ids.contains(name)) << name;
    EXPECT_EQ((*MakeCodec(name))->id(), ids.at(name));
    EXPECT_TRUE(seen.insert(ids.at(name)).second);
  }
}

TEST(Catalog, AnInstructionSetThatTheCpuLacksIsFailedPrecondition) {
  for (Isa isa : AllIsas()) {
    const auto codec = MakeCodec("int4-b64", isa);
    EXPECT_EQ(codec.ok(), IsaSupported(isa));
    EXPECT_TRUE(codec.ok() || absl::IsFailedPrecondition(codec.status())) << codec.status();
  }
  EXPECT_TRUE(IsaSupported(BestIsa()));
}

// The golden bytes of one small frame: the header of the specification, field by field.
TEST(Frame, HeaderBytesAreThoseOfTheSpecification) {
  const std::vector<float> values = {7, -7, 1, 0, -2};
  const auto frame =
      *EncodeToFrame(**MakeCodec("int4-b64"), OwnedTensor(values, {1, 5}).view(), /*seed=*/99);
  // Scale 1.0 is bf16 3F80; codes q + 8: 15 1 9 8 6.
  const std::vector<uint8_t> want = {
      'L', 'H', 'C', '1', 0x30, 0, 0, 0, 1, 0, 0, 0, 64, 0, 0, 0,  // to block
      4,   0,   0,   0,   0,    0, 0, 0, 1, 0, 0, 0, 0,  0, 0, 0,  // params, rows
      5,   0,   0,   0,   0,    0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0,  // cols, seed
      11,  0,   0,   0,   0,    0, 0, 0};                          // payload bytes
  ASSERT_EQ(frame.size(), 64u + 11);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(static_cast<uint8_t>(frame[i]), want[i]) << i;
  for (size_t i = 60; i < 64; ++i) EXPECT_EQ(static_cast<uint8_t>(frame[i]), 0) << i;
  const std::vector<uint8_t> payload = {0x80, 0x3F, 0, 0, 0, 0, 0, 0, 0x1F, 0x89, 0x06};
  for (size_t i = 0; i < 11; ++i) EXPECT_EQ(static_cast<uint8_t>(frame[64 + i]), payload[i]) << i;
}

TEST(Frame, BytesAfterThePayloadAreDataLossEvenWhenTheSumIsRight) {
  auto frame = *EncodeToFrame(**MakeCodec("none"), OwnedTensor({1, 2}, {1, 2}).view(), /*seed=*/0);
  const FrameHeader header = *ParseFrame(frame);
  for (int extra : {1, 8}) {
    auto longer = frame;
    longer.resize(frame.size() + extra);
    SealFrame(header, longer);
    EXPECT_TRUE(absl::IsDataLoss(ParseFrame(longer).status())) << extra;
  }
}

class LyingFrame : public testing::Test {
 protected:
  // The frame of a small tensor with its header changed and the CRC right again.
  template <typename Change>
  absl::Status DecodeWith(Change change) {
    const Shape shape = {2, 70};
    auto frame = *EncodeToFrame(**MakeCodec("minmax4-b64"),
                                OwnedTensor(Draw(Distribution::kGaussian, 140, 1), shape).view());
    FrameHeader header = *ParseFrame(frame);
    change(header, frame);
    header.payload_bytes = frame.size() - kFrameHeaderBytes;
    SealFrame(header, frame);
    OwnedTensor x(shape, DType::kF32);
    const absl::Status named =
        (*MakeCodec("minmax4-b64"))->Decode(frame, nullptr, x.mutable_view());
    if (header.codec != 0x44) return DecodeFrame(frame, x.mutable_view());
    EXPECT_EQ(DecodeFrame(frame, x.mutable_view()), named);
    return named;
  }
};
using Bytes = std::vector<std::byte>;

TEST_F(LyingFrame, FieldsThatDoNotBelongToTheCodecAreDataLoss) {
  EXPECT_TRUE(DecodeWith([](FrameHeader&, Bytes&) {}).ok());
  EXPECT_TRUE(DecodeWith([](FrameHeader& h, Bytes&) { h.flags = kFlagErrorFeedback; }).ok());
  EXPECT_TRUE(absl::IsDataLoss(DecodeWith([](FrameHeader& h, Bytes&) { h.version = 2; })));
  EXPECT_TRUE(absl::IsDataLoss(DecodeWith([](FrameHeader& h, Bytes&) { h.flags = 0x8000; })));
  EXPECT_TRUE(absl::IsDataLoss(DecodeWith([](FrameHeader& h, Bytes&) { h.block = 32; })));
  EXPECT_TRUE(absl::IsDataLoss(DecodeWith([](FrameHeader& h, Bytes&) { h.param0 = 3; })));
  EXPECT_TRUE(absl::IsDataLoss(DecodeWith([](FrameHeader& h, Bytes&) { h.codec = 0x7777; })));
  EXPECT_TRUE(absl::IsDataLoss(DecodeWith([](FrameHeader&, Bytes& frame) { frame.resize(100); })));
  EXPECT_TRUE(absl::IsDataLoss(
      DecodeWith([](FrameHeader& h, Bytes&) { h.dtype = static_cast<DType>(3); })));
}

TEST_F(LyingFrame, ScalesThatAreNotFiniteAreDataLoss) {
  for (size_t at : {64, 64 + 2, 64 + 6, 72, 72 + 6}) {  // s and z of full and short blocks
    for (uint16_t bad : {0x7F80, 0xFF80, 0x7FC0}) {
      EXPECT_TRUE(absl::IsDataLoss(DecodeWith([&](FrameHeader&, Bytes& f) {
        std::memcpy(f.data() + at, &bad, 2);
      }))) << at;
    }
  }
}

}  // namespace
}  // namespace longhaul
