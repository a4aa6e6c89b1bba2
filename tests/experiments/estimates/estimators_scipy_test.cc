// The estimators against SciPy's, on tables drawn at random. Skipped, with the reason, where no
// Python has SciPy.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include <gtest/gtest.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "experiments/estimates/depth_models.h"
#include "experiments/estimates/efficiency.h"
#include "experiments/estimates/interval.h"

namespace longhaul {
namespace {

using nlohmann::json;

std::string PythonWithSciPy() {
  for (const std::string python : {LONGHAUL_TEST_PYTHON, LONGHAUL_EXPORT_PYTHON, "python3"}) {
    if (!python.empty() &&
        std::system((python + " -c 'import scipy.stats' >/dev/null 2>&1").c_str()) == 0) {
      return python;
    }
  }
  return "";
}

json BySciPy(const std::string& python, const json& input) {
  const std::string stem = testing::TempDir() + "scipy_" + std::to_string(getpid());
  std::ofstream(stem + ".in") << input;
  const std::string command =
      python + " " + LONGHAUL_TEST_SCRIPT + " " + stem + ".in > " + stem + ".out";
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  json output;
  std::ifstream(stem + ".out") >> output;
  std::filesystem::remove(stem + ".in");
  std::filesystem::remove(stem + ".out");
  return output;
}

struct Table {
  std::vector<ReferenceRun> reference;
  std::vector<DepthPoint> arms;
};

// The last arm lacks the last seed.
Table Draw(int seeds, double noise, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  Table table;
  for (const int64_t k : {2, 6, 14}) table.arms.push_back({k, {}});
  for (int64_t seed = 1; seed <= seeds; ++seed) {
    const double common = 0.02 * normal(random);
    for (const double budget : {0.35, 0.5, 0.8, 1.0, 1.2}) {
      table.reference.push_back(
          {seed, budget, 2 + std::pow(budget, -0.35) + common + noise * normal(random)});
    }
    for (DepthPoint& arm : table.arms) {
      if (arm.crossings == 14 && seed == seeds) continue;
      arm.loss_by_seed[seed] =
          3 + common + 0.004 * static_cast<double>(arm.crossings) + noise * normal(random);
    }
  }
  return table;
}

json ToJson(const Table& table) {
  json input = {{"reference", json::array()}, {"arms", json::array()}};
  for (const ReferenceRun& run : table.reference) {
    input["reference"].push_back({run.seed, run.budget, run.loss_nat});
  }
  for (const DepthPoint& arm : table.arms) {
    json losses = json::object();
    for (const auto& [seed, loss] : arm.loss_by_seed) losses[std::to_string(seed)] = loss;
    input["arms"].push_back({{"crossings", arm.crossings}, {"losses", losses}});
  }
  return input;
}

void ExpectSame(const Measured& ours, const json& theirs, double within) {
  EXPECT_NEAR(ours.value, theirs[0].get<double>(), within);
  ASSERT_TRUE(ours.interval);
  EXPECT_NEAR(ours.interval->low, theirs[1].get<double>(), within);
  EXPECT_NEAR(ours.interval->high, theirs[2].get<double>(), within);
}

TEST(SciPy, AgreesOnEveryEstimatorAndInterval) {
  const std::string python = PythonWithSciPy();
  if (python.empty()) GTEST_SKIP() << "no Python with SciPy";
  std::mt19937_64 random(17);
  for (const int seeds : {4, 7}) {
    const Table table = Draw(seeds, 0.004, random);
    json input = ToJson(table);
    const std::vector<double> y = {.03, .09, -.02, .11, .06}, x = {.15, .55, .35, .62, .20};
    input["loud"] = {{"y", y}, {"x", x}};
    input["t_quantiles"] = {{0.975, 1}, {0.95, 2}, {0.975, 4}, {0.975, 9}};
    input["power"] = json::array();
    for (const int n : {3, 5, 10}) input["power"].push_back({n, DetectableEffect(n)});
    const json scipy = BySciPy(python, input);

    const ReferenceCurve curve = *FitReference(table.reference);
    EXPECT_NEAR(curve.slope_nat, scipy["slope"], 1e-10);
    EXPECT_NEAR(curve.slope_se_nat, scipy["slope_se"], 1e-10);
    EXPECT_NEAR(curve.own_error, scipy["own_error"], 1e-9);
    for (size_t b = 0; b < curve.pseudo_controls.size(); ++b) {
      EXPECT_NEAR(curve.pseudo_controls[b].error.value, scipy["misses"][b], 1e-10);
    }
    EXPECT_NEAR(curve.sigma_nat, scipy["sigma"], 1e-10);
    for (size_t i = 0; i < table.arms.size(); ++i) {
      const Efficiency e = *EstimateArm(curve, curve.d0_loss_by_seed, table.arms[i].loss_by_seed,
                                        table.arms[i].crossings);
      ExpectSame(e.delta_nat, scipy["arms"][i]["delta"], 1e-9);
      ExpectSame(e.ln_eta, scipy["arms"][i]["ln_eta"], 1e-9);
      EXPECT_EQ(*e.equivalent, scipy["arms"][i]["equivalent"].get<bool>());
    }
    ExpectSame(EstimateJoint(curve, curve.d0_loss_by_seed, table.arms)->a, scipy["joint"], 1e-7);
    std::vector<EtaTerm> terms;
    std::vector<DepthArm> depths;
    for (const DepthPoint& arm : table.arms) {
      const double weight = terms.empty() ? 1 : terms.size() == 1 ? -1 : 0.5;
      terms.push_back({weight, curve.d0_loss_by_seed, arm.loss_by_seed});
      depths.push_back(
          {arm.crossings / 2 + 1, arm.crossings / 2, arm.crossings / 2, arm.loss_by_seed});
    }
    ExpectSame(EstimateContrast(curve, terms)->ln, scipy["contrast"], 1e-7);
    const DepthComparison compared = *CompareDepths(curve, curve.d0_loss_by_seed, depths);
    const DepthFit& power_fit = compared.Fit(DepthModel::kM4);
    EXPECT_NEAR(power_fit.theta[0], scipy["power_of_depth"][0], 1e-6);
    EXPECT_NEAR(power_fit.theta[1], scipy["power_of_depth"][1], 1e-5);
    EXPECT_NEAR(*power_fit.aicc, scipy["power_of_depth"][2], 1e-6);
    ExpectSame(RatioOfMeans(y, x, 0.95), scipy["fieller"], 1e-8);
    size_t q = 0;
    for (const auto& [p, df] : {std::pair(0.975, 1), {0.95, 2}, {0.975, 4}, {0.975, 9}}) {
      EXPECT_NEAR(TQuantile(p, df), scipy["t_quantiles"][q++], 1e-9);
    }
    for (const json& power : scipy["power"]) EXPECT_NEAR(power.get<double>(), 0.8, 1e-6);
  }
}

}  // namespace
}  // namespace longhaul
