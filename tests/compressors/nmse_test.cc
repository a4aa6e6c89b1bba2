// The error of every codec on the four reference distributions, 4 Mi elements, against the measured
// table of the specification (gate 5 %) and, on the Gaussian, against closed forms.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <numbers>

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
  const Shape shape = {1, kElements};
  const std::vector<float>& x = Reference(d);
  const auto frame = EncodeToFrame(*codec, {x.data(), DType::kF32, shape});
  EXPECT_TRUE(frame.ok()) << frame.status();
  std::vector<float> y(kElements);
  EXPECT_TRUE(codec->Decode(*frame, nullptr, {y.data(), DType::kF32, shape}).ok());
  return Nmse(x, y);
}

struct Row {
  std::string name;
  std::array<double, 4> nmse;  // Gaussian, Laplace, Student-t4, outlier
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

const Row kRows[] = {
    {"none", {0, 0, 0, 0}},
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
    {"minmax8-b64", {2.89e-5, 4.42e-5, 4.96e-5, 8.64e-5}},
};

class NmseTest : public testing::TestWithParam<Row> {};

TEST_P(NmseTest, IsWithinFivePercentOfTheTable) {
  for (Distribution d : kDistributions) {
    const double want = GetParam().nmse[static_cast<size_t>(d)];
    EXPECT_NEAR(MeasureNmse(GetParam().name, d), want, 0.05 * want) << DistributionName(d);
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
