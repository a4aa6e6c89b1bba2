// What `longhaul codecs` prints, with a clock of our own.
#include "compressors/survey.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "compressors/catalog.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;

TEST(Survey, CoversTheCatalogueWithMeasuredBitsAndErrors) {
  const auto surveys = SurveyCodecs({.names = {}, .elements = 1 << 16, .now_s = {}});
  ASSERT_TRUE(surveys.ok()) << surveys.status();
  ASSERT_EQ(surveys->size(),
            CodecNames().size() + ParametricExamples().size() + CodecAliases().size());
  for (const CodecSurvey& s : *surveys) {
    EXPECT_GT(s.bits_per_element, 0) << s.name;
    EXPECT_DOUBLE_EQ(s.ratio_bf16 * s.bits_per_element, 16);
    // randk multiplies what it keeps by the length of its window.
    double most = s.name.starts_with("randk-") ? 4096.0 / 952 : 1;
    // With one scale for a tensor each of n errors may be half a step, range / L / 2, and the energy
    // is at least that of the two ends, range^2 / 2.
    if (int bits = 0; sscanf(s.name.c_str(), "minmax%d-tensor", &bits) == 1) {
      most = (1 << 16) / 2.0 / std::pow((1 << bits) - 1, 2);
    }
    for (double nmse : s.nmse) EXPECT_LT(nmse, most) << s.name;
    EXPECT_EQ(s.encode_gb_s, 0) << "no clock, no speed";
  }
}

TEST(Survey, SpeedIsInputOverTheFastestPassOfTheGivenClock) {
  double now_s = 0;
  int calls = 0;
  // Every second call ends a pass: 1 ms, but 0.5 ms for one of them.
  const auto clock = [&] { return now_s += calls++ % 2 == 0 ? 1 : calls == 4 ? 5e-4 : 1e-3; };
  const auto surveys = SurveyCodecs({.names = {"int8-b64"}, .elements = 100'000, .now_s = clock});
  ASSERT_TRUE(surveys.ok());
  EXPECT_NEAR(surveys->front().encode_gb_s, 4e5 / 5e-4 * 1e-9, 1e-6);
  EXPECT_NEAR(surveys->front().decode_gb_s, 4e5 / 1e-3 * 1e-9, 1e-6);
}

TEST(Survey, TableHasALinePerCodecAndNamesTheInstructionSet) {
  const auto surveys = SurveyCodecs(
      {.names = {"bf16", "int4-b64-h64"}, .elements = 1 << 16, .isa = Isa::kScalar, .now_s = {}});
  ASSERT_TRUE(surveys.ok());
  const std::string text = FormatSurvey(*surveys, Isa::kScalar);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
  EXPECT_THAT(text, HasSubstr("(scalar)"));
  EXPECT_THAT(text, HasSubstr("int4-b64-h64  0x31     4.250    3.76"));
}

TEST(Survey, SortsByEveryColumn) {
  auto surveys =
      *SurveyCodecs({.names = {"bf16", "int4-b64", "int8-b64"}, .elements = 4096, .now_s = {}});
  const auto first = [&](const char* column) {
    EXPECT_TRUE(SortSurvey(column, surveys).ok());
    return surveys.front().name;
  };
  EXPECT_EQ(first("bits"), "int4-b64");
  EXPECT_EQ(first("error"), "bf16");
  EXPECT_EQ(first("outlier"), "bf16");
  EXPECT_EQ(first("id"), "bf16");
  EXPECT_EQ(first("name"), "bf16");
  surveys[1].encode_gb_s = surveys[2].decode_gb_s = 9;
  const std::string fastest = surveys[1].name;
  EXPECT_EQ(first("encode"), fastest);
  EXPECT_EQ(first("decode"), surveys[0].name);
  EXPECT_TRUE(absl::IsInvalidArgument(SortSurvey("colour", surveys)));
}

TEST(Survey, JsonHasOneObjectPerCodec) {
  const auto surveys =
      *SurveyCodecs({.names = {"none", "int4-b64"}, .elements = 4096, .now_s = {}});
  const std::string json = SurveyJson(surveys, Isa::kScalar);
  EXPECT_THAT(json, HasSubstr("{\"name\": \"int4-b64\", \"id\": 48, \"bits_per_element\": 4.25,"));
  EXPECT_THAT(json, HasSubstr("\"nmse\": {\"Gaussian\": 0,"));
  EXPECT_THAT(json, HasSubstr("\"encode_gb_per_s\": null"));
  EXPECT_EQ(std::count(json.begin(), json.end(), '{'), std::count(json.begin(), json.end(), '}'));
}

TEST(Survey, UnknownNamesAreNotFound) {
  EXPECT_TRUE(
      absl::IsNotFound(SurveyCodecs({.names = {"int5"}, .elements = 64, .now_s = {}}).status()));
}

TEST(ReferenceTensors, HaveTheMomentsOfTheirDistributions) {
  const size_t n = 1 << 18;
  const double want[] = {1, 2, 2, 1 + 3599.0 / 64};  // E[x^2]
  for (Distribution d : {Distribution::kGaussian, Distribution::kLaplace, Distribution::kOutlier}) {
    double sum = 0, square = 0;
    for (float x : DrawReference(d, n, 3)) {
      sum += x;
      square += double{x} * x;
    }
    const double variance = want[static_cast<size_t>(d)];
    EXPECT_NEAR(square / n, variance, 0.05 * variance) << DistributionName(d);
    EXPECT_NEAR(sum / n, 0, 5 * std::sqrt(variance / n)) << DistributionName(d);
  }
  // Student-t4 has no fourth moment: its median of |x| is 0.7407.
  size_t below = 0;
  for (float x : DrawReference(Distribution::kStudentT4, n, 3)) below += std::fabs(x) < 0.7407f;
  EXPECT_NEAR(static_cast<double>(below) / n, 0.5, 0.005);
}

// Rows in which every column has an order of its own.
TEST(Survey, EachColumnSortsByItsOwnFigure) {
  const auto row = [](std::string name, uint16_t id, double bits, double error, double outlier,
                      double encode, double decode) {
    CodecSurvey s;
    s.name = std::move(name);
    s.id = id;
    s.bits_per_element = bits;
    s.nmse = {error, 9, 9, outlier};
    s.encode_gb_s = encode;
    s.decode_gb_s = decode;
    return s;
  };
  const std::vector<CodecSurvey> rows = {row("c", 2, 1, 2, 3, 3, 1), row("a", 3, 2, 3, 1, 2, 3),
                                         row("b", 1, 3, 1, 2, 1, 2)};
  const auto order = [&](const char* column) {
    std::vector<CodecSurvey> sorted = rows;
    EXPECT_TRUE(SortSurvey(column, sorted).ok());
    return sorted[0].name + sorted[1].name + sorted[2].name;
  };
  EXPECT_EQ(order("name"), "abc");
  EXPECT_EQ(order("id"), "bca");
  EXPECT_EQ(order("bits"), "cab");
  EXPECT_EQ(order("error"), "bca");
  EXPECT_EQ(order("outlier"), "abc");
  EXPECT_EQ(order("encode"), "cab") << "the fastest first";
  EXPECT_EQ(order("decode"), "abc");
}

}  // namespace
}  // namespace longhaul
