// The error of every codec on the four reference distributions, 4 Mi elements, against the measured
// table of the specification (gate 5 %) and, on the Gaussian, against closed forms.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <numbers>
#include <utility>

#include "tests/compressors/tensors.h"

namespace longhaul {
namespace {

constexpr size_t kElements = size_t{4} << 20;

const std::vector<float>& Reference(Distribution d) {
  static std::map<Distribution, std::vector<float>> drawn;
  if (!drawn.contains(d)) drawn[d] = Draw(d, kElements, 41);
  return drawn[d];
}

double MeasureNmse(const std::string& name, Distribution d) {
  const auto codec = *MakeCodec(name);
  // TAH ranks the tiles of a token against each other, so it is given tokens; AQ-SGD has 1024
  // tokens per channel.
  const bool differences = DecodingNeedsState(*codec);
  const size_t cols = name.starts_with("tah4") ? 1024 : differences ? kElements / 1024 : kElements;
  const Shape shape = {kElements / cols, cols};
  const std::vector<float>& x = Reference(d);
  std::vector<float> y(kElements);
  const auto state = codec->NewState(shape), received = codec->NewDecoderState(shape);
  // Where differences are sent, x is the difference to zeros.
  for (const std::vector<float>* values : {&std::as_const(y), &x}) {
    if (!differences && values == &y) continue;
    const auto frame = EncodeToFrame(*codec, {values->data(), DType::kF32, shape}, 1, state.get());
    EXPECT_TRUE(frame.ok()) << frame.status();
    if (!frame.ok()) return -1;
    EXPECT_TRUE(codec->Decode(*frame, received.get(), {y.data(), DType::kF32, shape}).ok());
  }
  return Nmse(x, y);
}

struct Row {
  std::string name;
  // Gaussian, Laplace, Student-t4, outlier. Negative: the value hangs on the largest sample, so
  // only the order of magnitude is checked.
  std::array<double, 4> nmse;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

const Row kRows[] = {
    {"none", {0, 0, 0, 0}},
    {"identity", {0, 0, 0, 0}},
    {"gauss-0.01", {0.01, 0.01, 0.01, 0.01}},
    {"bf16", {2.76e-6, 2.75e-6, 2.75e-6, 2.76e-6}},
    {"fp16", {4.31e-8, 4.30e-8, 4.32e-8, 4.31e-8}},
    {"int8-b64", {3.55e-5, 6.18e-5, 8.07e-5, 3.22e-4}},
    {"int4-b64", {1.16e-2, 1.98e-2, 2.56e-2, 1.32e-2}},
    {"int4-b64-h64", {1.16e-2, 1.12e-2, 1.08e-2, 2.65e-3}},
    {"minmax2-b64", {.203, .313, .349, .095}},
    {"minmax3-b64", {.0370, .0568, .0633, .066}},
    {"minmax4-b64", {8.03e-3, 1.24e-2, 1.39e-2, 2.88e-2}},
    {"minmax5-b64", {1.88e-3, 2.89e-3, 3.27e-3, 6.32e-3}},
    {"minmax6-b64", {4.56e-4, 7.01e-4, 7.86e-4, 1.37e-3}},
    {"minmax7-b64", {1.14e-4, 1.74e-4, 1.95e-4, 3.39e-4}},
    {"fp8-e4m3-g16", {4.98e-4, 4.13e-4, 3.85e-4, 1.22e-5}},
    {"fp8-e4m3-g128", {6.61e-4, 6.17e-4, 5.73e-4, 1.35e-4}},
    {"fp8-e5m2-g16", {1.99e-3, 1.64e-3, 1.53e-3, 4.04e-5}},
    {"int8-b4096", {7.56e-5, 2.08e-4, -7.2e-4, 2.23e-3}},
    {"minmax4-b64-h64", {8.03e-3, 7.83e-3, 7.6e-3, 2.17e-3}},
    {"q8_0", {2.87e-5, 4.53e-5, 5.4e-5, 1.58e-4}},
    {"q4_0", {7.39e-3, 1.14e-2, 1.34e-2, 6.28e-3}},
    {"stat2", {.179, .212, .26, .290}},
    {"stat4", {1.24e-2, 2.37e-2, -5.4e-2, .224}},
    {"stat8", {2.53e-4, 7.5e-3, -3.4e-2, .201}},
    {"sign1", {.364, .500, .502, .959}},
    {"mxfp4", {1.32e-2, 1.60e-2, 1.72e-2, 2.23e-2}},
    {"mxfp4-h32", {1.32e-2, 1.33e-2, 1.30e-2, 1.2e-2}},
    {"e3m0-b64", {3.54e-2, 3.17e-2, 2.92e-2, 1.57e-3}},
    {"dyn8-b4096", {1.68e-4, 2.7e-4, 3.9e-4, 1.22e-4}},
    {"nvfp4", {9.04e-3, 8.59e-3, 8.40e-3, 3.33e-3}},
    {"tah4-g64", {1.42e-2, 2.28e-2, 2.27e-2, 2.4e-4}},
    {"tah4-g32", {1.09e-2, 1.51e-2, 1.41e-2, 1.8e-4}},
    // The columns that stand out are Gaussian, and have scales of their own.
    {"aqsgd4", {1.57e-2, 3.69e-2, 8.2e-2, 1.57e-2}},
    {"aqsgd2", {.254, .416, -.58, .256}},
    {"aqsgd8", {6.2e-5, 1.5e-4, -3.6e-4, 6.2e-5}},
    {"demo-dct", {.931, .931, .931, .907}},
    {"diloco-x", {.984, .984, .984, .526}},
    {"int4-b64+ef21", {1.16e-2, 1.98e-2, 2.56e-2, 1.32e-2}},  // of the difference
    {"gact4-g256", {2.37e-2, 4.45e-2, 6.2e-2, .24}},
    {"qsgd4", {3.64e-2, 8.0e-2, .155, .20}},
    {"qsgd8", {8.47e-2, 8.3e-2, 8.5e-2, 5.8e-2}},
    {"int4-b64+sr", {2.32e-2, 4.0e-2, 5.2e-2, 7.8e-2}},
    {"topk-64of4096+none", {.881, .785, .717, .017}},
    {"topk-410of4096+none", {.560, .405, .386, .010}},
    {"topk-1024of4096+none", {.276, .164, .173, .005}},
    {"topk-456of4096+int4-b64", {.533, .381, .372, .0227}},
    {"topk-64of4096+stat2", {.882, .793, .79, .192}},
    // The first frame of RandK under error feedback keeps k / C of the energy.
    {"randk-952of4096+none+ef", {.7676, .7676, .7676, .7676}},
    // One scale for four million elements: the largest one decides.
    {"minmax2-tensor", {-1.2, -6.4, -358, -113}},
    {"minmax3-tensor", {-.18, -.63, -19, -16.5}},
    {"minmax4-tensor", {-.040, -.16, -3.6, -.24}},
    {"minmax8-b64", {2.89e-5, 4.42e-5, 4.96e-5, 8.64e-5}},
};

class NmseTest : public testing::TestWithParam<Row> {};

TEST_P(NmseTest, IsWithinFivePercentOfTheTable) {
  for (Distribution d : kDistributions) {
    const double want = GetParam().nmse[static_cast<size_t>(d)];
    const double got = MeasureNmse(GetParam().name, d);
    if (want < 0) {
      EXPECT_GT(got, -want / 3) << DistributionName(d);
      EXPECT_LT(got, -want * 3) << DistributionName(d);
    } else {
      EXPECT_NEAR(got, want, 0.05 * want) << DistributionName(d);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Table, NmseTest, testing::ValuesIn(kRows),
                         [](const auto& info) { return TestName(info.param.name); });

TEST(NmseTable, HasARowForEveryCodec) {
  for (const std::string& name : CodecNames()) {
    bool found = false;
    for (const Row& row : kRows) found |= row.name == name;
    EXPECT_TRUE(found) << name << " has no reference error";
  }
}

// Unit Gaussian, blocks of 64: uniform error s^2 / 12 of the elements that are not the extremes.
TEST(ClosedForm, Int4) {
  const double max2 = 6.92;  // E[max^2] of 64 draws
  EXPECT_NEAR(MeasureNmse("int4-b64", Distribution::kGaussian), 63.0 / 64 * max2 / (12 * 49),
              0.02 * 1.16e-2);
}
TEST(ClosedForm, MinMax) {
  const double range2 = 22.39;  // E[range^2] of 64 draws
  for (int k = 3; k <= 6; ++k) {
    const double levels = (1 << k) - 1;
    const double want = 62.0 / 64 * range2 / (12 * levels * levels);
    EXPECT_NEAR(MeasureNmse("minmax" + std::to_string(k) + "-b64", Distribution::kGaussian), want,
                0.05 * want);
  }
}

// Unit Gaussian: 1 - 2/pi.
TEST(ClosedForm, Sign) {
  EXPECT_NEAR(MeasureNmse("sign1", Distribution::kGaussian), 1 - 2 / std::numbers::pi, 0.004);
}

// bf16 scales: no loss where fp16 scales would have underflowed (activation gradients live there).
TEST(SmallScales, TinyTensorsLoseNothing) {
  std::vector<float> x = Draw(Distribution::kGaussian, 1 << 16, 4);
  for (float& v : x) v *= 1e-8f;
  const Shape shape = {1, x.size()};
  for (const auto& [name, want] : {std::pair<const char*, double>{"int8-b64", 3.55e-5},
                                   {"int4-b64", 1.16e-2},
                                   {"minmax8-b64", 2.89e-5}}) {
    const auto codec = *MakeCodec(name);
    std::vector<float> y(x.size());
    ASSERT_TRUE(codec
                    ->Decode(*EncodeToFrame(*codec, {x.data(), DType::kF32, shape}), nullptr,
                             {y.data(), DType::kF32, shape})
                    .ok());
    EXPECT_NEAR(Nmse(x, y), want, 0.05 * want) << name;
  }
}

}  // namespace
}  // namespace longhaul
