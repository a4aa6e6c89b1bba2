#include "experiments/estimates/outer_forms.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul {
namespace {

using testing::HasSubstr;

// Five seeds, each with an effect of its own and a fixed pattern of noise.
std::vector<std::vector<double>> Data(const std::vector<double>& x, double (*truth)(double),
                                      double noise) {
  std::vector<std::vector<double>> y;
  for (int seed = 0; seed < 5; ++seed) {
    std::vector<double> row;
    for (size_t i = 0; i < x.size(); ++i) {
      const double pattern = std::sin(12.9898 * (seed + 1) + 78.233 * static_cast<double>(i));
      row.push_back(0.3 * seed + truth(x[i]) + noise * pattern);
    }
    y.push_back(row);
  }
  return y;
}

const OuterForm& Named(const OuterForms& forms, const std::string& name) {
  for (const OuterForm& form : forms.forms) {
    if (form.name == name) return form;
  }
  ADD_FAILURE() << name;
  return forms.forms.front();
}

const std::vector<double> kSteps = {1, 10, 30, 100};

TEST(OuterForms, EachTruthIsGivenBackByItsForm) {
  const auto power =
      CompareOuterForms(OuterAxis::kInnerSteps, "p", kSteps,
                        Data(
                            kSteps, [](double h) { return 0.2 * std::log(h); }, 1e-4));
  EXPECT_NEAR(Named(power, "H^-alpha").parameters.at(0).second.value, 0.2, 1e-4);
  EXPECT_THAT(power.Words(), HasSubstr("H^-alpha is preferred"));
  const auto linear = CompareOuterForms(
      OuterAxis::kInnerSteps, "l", kSteps,
      Data(
          kSteps, [](double h) { return -std::log(1 - 0.2 * std::log10(h)); }, 1e-4));
  EXPECT_NEAR(Named(linear, "1 - alpha log10 H").parameters.at(0).second.value, 0.2, 1e-4);
  EXPECT_THAT(linear.Words(), HasSubstr("1 - alpha log10 H is preferred"));
  const std::vector<double> groups = {1, 2, 4, 8};
  const auto curved = CompareOuterForms(
      OuterAxis::kReplicas, "c", groups,
      Data(
          groups, [](double m) { return 0.02 * std::log(m) + 0.01 * std::pow(std::log(m), 2); },
          1e-5));
  const OuterForm& fit = Named(curved, "M^(beta + c ln M)");
  EXPECT_NEAR(fit.parameters.at(0).second.value, 0.02, 1e-4);
  EXPECT_NEAR(fit.parameters.at(1).second.value, 0.01, 1e-4);
  EXPECT_THAT(curved.Words(), HasSubstr("M^(beta + c ln M) is preferred"));
}

TEST(OuterForms, NoTrendIsNotDressedUp) {
  std::vector<std::vector<double>> y;  // slopes of both signs
  for (const double slope : {-0.02, 0.02, -0.01, 0.01, 0.0}) {
    y.push_back({0, slope * std::log(10), slope * std::log(30) + 0.01, slope * std::log(100)});
  }
  const auto none = CompareOuterForms(OuterAxis::kInnerSteps, "n", kSteps, y);
  EXPECT_THAT(none.Words(), HasSubstr("no trend"));
  const Measured alpha = Named(none, "H^-alpha").parameters.at(0).second;
  ASSERT_TRUE(alpha.interval);
  EXPECT_LT(alpha.interval->low, 0);
  EXPECT_GT(alpha.interval->high, 0);
}

// AICc written out, for the form without a parameter: five seeds' effects and the variance.
TEST(OuterForms, AiccCountsSeedEffects) {
  const auto y = Data(
      kSteps, [](double) { return 0.0; }, 0.05);
  double squares = 0;
  for (const auto& row : y) {
    const double mean = Mean(row);
    for (const double v : row) squares += (v - mean) * (v - mean);
  }
  const double n = 20, k = 6;
  const double aicc = n * std::log(squares / n) + 2 * k + 2 * k * (k + 1) / (n - k - 1);
  const auto forms = CompareOuterForms(OuterAxis::kInnerSteps, "n", kSteps, y);
  EXPECT_NEAR(*Named(forms, "no trend").aicc, aicc, 1e-9);
}

}  // namespace
}  // namespace longhaul
