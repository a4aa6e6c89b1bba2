#include "experiments/estimates/diloco_findings.h"

#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/estimates/campaign_analysis.h"
#include "tests/experiments/estimates/analysed_campaign.h"

namespace longhaul {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr char kUnsplit[] = "stages = 1\nforward = \"none\"\nbackward = \"none\"\n";

std::string Cell(const std::string& name, int groups, int inner_steps, const std::string& codec,
                 int rows, const std::string& more = kUnsplit) {
  return fmt::format(
      "[[arm]]\nname = \"{}\"\nouter.groups = {}\nouter.inner_steps = {}\nouter.codec = \"{}\"\n"
      "train.batch_rows = {}\n{}",
      name, groups, inner_steps, codec, rows, more);
}

// What the arms of the table lose, nat. The codec, like the pipeline's, loses what it loses alone.
struct Cells {
  double m1_h1 = 0.002, m1_h10 = 0.004, m2_h1 = 0.003, m2_h10 = 0.015, codec = 0.006;
};

class DilocoFindingsTest : public AnalysedCampaign {
 protected:
  static SyntheticWorld World(const Cells& x = {}) {
    SyntheticWorld w;
    w.noise_nat = 1e-6;
    w.seeds = 5;
    w.more_arms = Cell("d11", 1, 1, "none", 16) + Cell("d110", 1, 10, "none", 16) +
                  Cell("d21", 2, 1, "none", 8) + Cell("d210", 2, 10, "none", 8) +
                  Cell("d210-int8", 2, 10, "int8-b64", 8);
    w.extra_nat = {{"d11", x.m1_h1},
                   {"d110", x.m1_h10},
                   {"d21", x.m2_h1},
                   {"d210", x.m2_h10},
                   {"d210-int8", x.m2_h10 + x.codec}};
    return w;
  }
  static const DilocoFactor& Named(const CampaignAnalysis& a, const std::string& name) {
    for (const DilocoFactor& f : a.diloco.factors) {
      if (f.name == name) return f;
    }
    ADD_FAILURE() << "no factor '" << name << "'";
    static const DilocoFactor none = {};
    return none;
  }
};

TEST_F(DilocoFindingsTest, EveryFactorIsTheRatioOfItsCells) {
  const SyntheticWorld w = World();
  const CampaignAnalysis a = Analysed(w);
  ASSERT_THAT(a.diloco.cells, SizeIs(5));
  const Cells x;
  const double s = w.slope_nat;  // all losses are below 0.1 s: the local form
  for (const auto& [name, nat] :
       {std::pair("eta_H(10 | M = 1)", x.m1_h10 - x.m1_h1),
        {"eta_H(10 | M = 2)", x.m2_h10 - x.m2_h1},
        {"eta_replicas(2 | H = 1)", x.m2_h1 - x.m1_h1},
        {"eta_replicas(2 | H = 10)", x.m2_h10 - x.m1_h10},
        {"eta_c(int8-b64 | M = 2, H = 10)", x.codec},
        {"interaction of H = 10 and M = 2", x.m2_h10 - x.m2_h1 - x.m1_h10 + x.m1_h1}}) {
    const DilocoFactor& f = Named(a, name);
    ASSERT_TRUE(f.ln) << name << ": " << f.note;
    EXPECT_NEAR(f.ln->value, -nat / s, 1e-3) << name;
    ASSERT_TRUE(f.ln->interval) << name;
    EXPECT_EQ(f.ln->interval->method, "t") << name;
    EXPECT_EQ(f.seeds, 5) << name;
    if (f.eta) {
      EXPECT_NEAR(f.eta->value, std::exp(f.ln->value), 1e-12) << name;
    }
  }
  EXPECT_FALSE(Named(a, "interaction of H = 10 and M = 2").eta);
}

TEST_F(DilocoFindingsTest, AnotherGlobalBatchIsNoCell) {
  SyntheticWorld w;
  w.noise_nat = 1e-6;
  w.seeds = 5;
  // With the reference's warm-up, so that the batch alone sets it apart.
  w.more_arms =
      Cell("local", 2, 10, "none", 16, std::string(kUnsplit) + "train.warmup_steps = 10\n") +
      Cell("lr", 2, 10, "none", 8, std::string(kUnsplit) + "train.lr = 1e-3\n");
  const CampaignAnalysis a = Analysed(w);
  EXPECT_THAT(a.diloco.cells, IsEmpty());
  EXPECT_THAT(a.diloco.factors, IsEmpty());
  EXPECT_THAT(CampaignTable(a, Detail::kAll), Not(HasSubstr("DiLoCo")));
}

TEST_F(DilocoFindingsTest, AnotherAlgorithmOrRateIsNoCellButAnEntryOfItsOwn) {
  SyntheticWorld w = World();
  w.more_arms +=
      Cell("noloco", 2, 10, "none", 8, std::string("outer.algorithm = \"noloco\"\n") + kUnsplit);
  w.more_arms += Cell("rate", 2, 10, "none", 8, std::string(kUnsplit) + "train.lr = 1e-3\n") +
                 Cell("short", 2, 10, "none", 8,
                      std::string("budget = 0.5\nouter.algorithm = \"noloco\"\n") + kUnsplit) +
                 Cell("other", 2, 10, "none", 8, std::string(kUnsplit) + "train.clip_norm = 2.0\n");
  w.extra_nat["noloco"] = 0.1;
  w.extra_nat["rate"] = 0.05;
  const CampaignAnalysis a = Analysed(w);
  EXPECT_THAT(a.diloco.cells, SizeIs(5));
  // In the calibration it stands by its name, and DiLoCo at another inner rate beside it.
  const json outer = json::parse(CalibrationJson(a))["eta_outer"];
  ASSERT_THAT(outer, SizeIs(2));
  EXPECT_EQ(outer[0]["algorithm"], "noloco");
  EXPECT_EQ(outer[0]["M"], 2);
  EXPECT_EQ(outer[0]["H"], 10);
  EXPECT_NEAR(outer[0]["eta"].get<double>(), std::exp(-0.1 / w.slope_nat), 1e-2);
  EXPECT_EQ(outer[1]["arm"], "rate");
  EXPECT_EQ(outer[1]["algorithm"], "diloco");
  EXPECT_NEAR(outer[1]["eta"].get<double>(), std::exp(-0.05 / w.slope_nat), 1e-2);
}

// Its own reference has the same larger batch; factors of the two conventions never mix.
TEST_F(DilocoFindingsTest, LocalBatchCellsAreMeasuredAgainstTheirDataParallelArm) {
  SyntheticWorld w = World();
  const std::string against = std::string(kUnsplit) + "reference = \"dp\"\n";
  w.more_arms +=
      "[[arm]]\nname = \"dp\"\nouter.groups = 2\nouter.algorithm = \"dp\"\n"
      "outer.codec = \"none\"\n" +
      std::string(kUnsplit) + Cell("l21", 2, 1, "none", 16, against) +
      Cell("l210", 2, 10, "none", 16, against);
  w.extra_nat["dp"] = 0.02;
  w.extra_nat["l21"] = 0.021;
  w.extra_nat["l210"] = 0.03;
  const CampaignAnalysis a = Analysed(w);
  ASSERT_THAT(a.diloco.cells, SizeIs(7));
  const DilocoFactor& h = Named(a, "eta_H(10 | M = 2), local batch");
  ASSERT_TRUE(h.ln) << h.note;
  EXPECT_NEAR(h.ln->value, -(0.03 - 0.021) / w.slope_nat, 1e-3);
  const DilocoFactor& m = Named(a, "eta_replicas(2 | H = 10), local batch");
  ASSERT_TRUE(m.ln) << m.note;
  EXPECT_NEAR(m.ln->value, -(0.01 - Cells().m1_h10) / w.slope_nat, 1e-3)
      << "over its own reference, against M = 1 over D0's";
  EXPECT_NEAR(Named(a, "eta_H(10 | M = 2)").ln->value,
              -(Cells().m2_h10 - Cells().m2_h1) / w.slope_nat, 1e-3);
  const json c = json::parse(CalibrationJson(a));
  int64_t local = 0;
  for (const json& total : c["eta_diloco"]) {
    local += total["batch"] == "local-batch-matched";
  }
  EXPECT_EQ(local, 2);
}

TEST_F(DilocoFindingsTest, PipelineInsideOfGroupsInteractsByWhatItLosesBeyondTheTwo) {
  SyntheticWorld w = World();
  w.q = 1;
  w.more_arms += Cell("joint", 2, 10, "none", 8,
                      "stages = 4\nforward = \"int4-b64-h64\"\nbackward = \"int8-b64\"\n");
  w.extra_nat["joint"] = w.extra_nat["d210"] + 0.01;
  const CampaignAnalysis a = Analysed(w);
  const DilocoFactor& f =
      Named(a, "interaction of int4-b64-h64 / int8-b64, S = 4 and M = 2, H = 10");
  ASSERT_TRUE(f.ln) << f.note;
  EXPECT_NEAR(f.ln->value, -0.01 / w.slope_nat, 1e-3);
}

TEST_F(DilocoFindingsTest, CellBelowTheSmallestBudgetGivesNoFactor) {
  SyntheticWorld w = World();
  w.extra_nat["d210"] = 1;
  const CampaignAnalysis a = Analysed(w);
  const DilocoFactor& f = Named(a, "eta_H(10 | M = 2)");
  EXPECT_FALSE(f.ln);
  EXPECT_THAT(f.note, HasSubstr("below"));
  EXPECT_THAT(CampaignTable(a, Detail::kAll),
              testing::ContainsRegex("eta_H.10 . M = 2. +0 +a term lies below"));
}

TEST_F(DilocoFindingsTest, CalibrationHasTotalsAndThePlannersSplit) {
  const json c = json::parse(CalibrationJson(Analysed(World())));
  EXPECT_THAT(c["eta_diloco"], SizeIs(5));
  ASSERT_THAT(c["eta_H"], SizeIs(2));  // of M0 = 2, at H = 1 and 10
  EXPECT_EQ(c["eta_H"][1]["M"], 2);
  EXPECT_EQ(c["eta_H"][1]["H"], 10);
  EXPECT_NEAR(c["eta_H"][1]["eta"].get<double>(), std::exp(-0.015 / 0.37), 1e-3);
  EXPECT_THAT(c["eta_H"][1]["ci"], SizeIs(2));
  ASSERT_THAT(c["interaction"], SizeIs(1));
  EXPECT_EQ(c["interaction"][0]["terms"], json({"H", "M"}));
}

TEST_F(DilocoFindingsTest, RatioIsOfOneFrameHoweverManyPeersGetIt) {
  for (const int groups : {2, 4}) {
    SyntheticWorld w;
    w.noise_nat = 1e-6;
    w.seeds = 5;
    w.with_steps = true;
    w.more_arms = Cell("plain", groups, 10, "none", 16 / groups) +
                  Cell("coded", groups, 10, "int8-b64", 16 / groups);
    const int64_t experiment =
        WriteSyntheticCampaign(*record_, w, "groups" + std::to_string(groups));
    const std::vector<ExperimentRow> experiments = *record_->Experiments();
    for (const ExperimentRow& e : experiments) {
      if (e.id != experiment) continue;
      const json c = json::parse(CalibrationJson(*Analyse(*record_, e)));
      ASSERT_THAT(c["eta_c"], SizeIs(1)) << groups;
      EXPECT_NEAR(c["eta_c"][0]["ratio"].get<double>(), 4, 1e-3) << groups;
    }
  }
}

}  // namespace
}  // namespace longhaul
