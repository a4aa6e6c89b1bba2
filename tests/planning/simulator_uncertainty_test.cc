// [assume]: numbers and ranges in place of the model's factors, what the ranges come to, and what
// bad ones are told.
#include <algorithm>
#include <cmath>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "planning/simulator/simulate.h"
#include "planning/simulator/uncertainty.h"
#include "tests/planning/simulator_testing.h"

namespace longhaul::simulator {
namespace {

using testing::HasSubstr;

constexpr double k72Nodes = 1.75076e25;  // C_local of 72 nodes at eta_c = 0.98, as published

absl::StatusOr<ScenarioFile> Read(const std::string& text) {
  const absl::StatusOr<TomlValue> root = ParseToml(text, "plan.toml");
  if (!root.ok()) return root.status();
  return ReadScenarioFile(*root);
}
std::string ErrorOf(const std::string& text) { return std::string(Read(text).status().message()); }
std::string Assume(const std::string& lines) {
  return "[network]\nnodes = 72\n[assume]\n" + lines + "\n";
}

// The only scenario of a file with these lines in [assume].
ResultRow RowOf(const std::string& text) {
  const absl::StatusOr<ScenarioFile> file = Read(text);
  EXPECT_TRUE(file.ok()) << file.status();
  ResultRow out;
  if (file.ok()) {
    EXPECT_TRUE(RunScenarios(*file, [&](const ResultRow& row) { out = row; }).ok());
  }
  return out;
}
Uncertainty Of(const std::string& text) {
  return Propagate(RowOf(text).scenario, Read(text)->assumptions);
}
Spread SpreadOf(const Uncertainty& u, const std::string& quantity) {
  for (const Spread& s : u.spreads) {
    if (s.quantity == quantity) return s;
  }
  ADD_FAILURE() << "no quantity '" << quantity << "'";
  return {};
}
std::vector<Lever> LeversOf(const Uncertainty& u, const std::string& quantity) {
  std::vector<Lever> out;
  for (const Lever& l : u.levers) {
    if (l.quantity == quantity) out.push_back(l);
  }
  return out;
}

TEST(SimulatorUncertainty, QuantilesOfTheTriangleByHand) {
  // Peak at 1 of 0 to 4: a quarter lies below it.
  EXPECT_EQ(TriangularQuantile(0, 1, 4, 0), 0);
  EXPECT_DOUBLE_EQ(TriangularQuantile(0, 1, 4, 0.0625), 0.5);
  EXPECT_DOUBLE_EQ(TriangularQuantile(0, 1, 4, 0.25), 1);
  EXPECT_DOUBLE_EQ(TriangularQuantile(0, 1, 4, 0.75), 4 - std::sqrt(3.0));
  EXPECT_EQ(TriangularQuantile(0, 1, 4, 1), 4);
  EXPECT_NEAR(TriangularQuantile(0, 0, 1, 0.19), 0.1, 1e-15);
  EXPECT_NEAR(TriangularQuantile(0, 1, 1, 0.25), 0.5, 1e-15);
  EXPECT_EQ(TriangularQuantile(0.7, 0.7, 0.7, 0.3), 0.7);
}

TEST(SimulatorUncertainty, DrawsFillEachTenthAlike) {
  for (const uint64_t source : {0, 1, 8}) {
    int counts[10] = {};
    for (uint64_t draw = 0; draw < 10000; ++draw) {
      ++counts[static_cast<int>(10 * Uniform(1, draw, source))];
    }
    for (const int count : counts) EXPECT_NEAR(count, 1000, 120);  // four standard deviations
  }
}

// C_local is eta_c times the rest: its quantiles are those of the triangle 0.90, 0.98, 1.00.
// 5 %: 0.9 + sqrt(0.05 0.1 0.08); half: 0.9 + sqrt(0.5 0.1 0.08); 95 %: 1 - sqrt(0.05 0.1 0.02).
TEST(SimulatorUncertainty, AQuantityLinearInAFactorHasTheTrianglesQuantiles) {
  const Spread s = SpreadOf(Of(Assume("eta_c = [0.90, 0.98, 1.00]")), "c_local");
  EXPECT_NEAR_REL(s.mid, k72Nodes);
  const double one = k72Nodes / 0.98;
  EXPECT_NEAR(s.low / one, 0.92, 1.3e-3);
  EXPECT_NEAR(s.median / one, 0.96325, 1.3e-3);
  EXPECT_NEAR(s.high / one, 0.99, 1e-3);
}

// Two equal symmetric triangles are four uniforms: 5 % lie below 1.2^(1/4) of their sum's 4.
TEST(SimulatorUncertainty, FactorsAreIndependent) {
  const Spread s =
      SpreadOf(Of(Assume("eta_c = [0.90, 0.95, 1.00]\neta_h = [0.90, 0.95, 1.00]")), "eta");
  const double sum = 1.8 + 0.05 * std::pow(1.2, 0.25);
  EXPECT_NEAR(std::log(s.low / s.mid), std::log(sum / 1.9) * 2, 0.0035);
}

TEST(SimulatorUncertainty, TheSameSeedGivesTheSameBitsAndAnotherGivesOthers) {
  const std::string lines = "q = [0.98, 0.99, 0.995]\neta_c = [0.9, 0.95, 1]\n";
  const Spread one = SpreadOf(Of(Assume(lines)), "c_local");
  const Spread again = SpreadOf(Of(Assume(lines + "seed = 1")), "c_local");
  const Spread other = SpreadOf(Of(Assume(lines + "seed = 2")), "c_local");
  EXPECT_EQ(one.low, again.low);
  EXPECT_EQ(one.median, again.median);
  EXPECT_EQ(one.high, again.high);
  EXPECT_NE(one.median, other.median);
  EXPECT_NEAR(one.median / other.median, 1, 2e-3);
  // q moves nothing on whole nodes and takes no draw from eta_c.
  EXPECT_EQ(one.median, SpreadOf(Of(Assume("eta_c = [0.9, 0.95, 1]")), "c_local").median);
}

TEST(SimulatorUncertainty, TheTornadoIsSortedByWhatMoves) {
  const Uncertainty u = Of(Assume(
      "eta_h = [0.84, 0.85, 0.86]\neta_c = [0.90, 0.98, 1.00]\neta_r = [0.5, 0.9, 1]\nq = [0.9, 1, 1]"));
  const std::vector<Lever> levers = LeversOf(u, "eta");
  ASSERT_EQ(levers.size(), 3u);  // q is of pipelines
  EXPECT_EQ(levers[0].factor, "eta_r");
  EXPECT_NEAR(levers[0].at_low, 0.85 * 0.98 * 0.5, 1e-12);
  EXPECT_NEAR(levers[0].at_high, 0.85 * 0.98, 1e-12);
  EXPECT_NEAR(levers[0].moves(), 0.85 * 0.98 * 0.5, 1e-12);
  EXPECT_EQ(levers[1].factor, "eta_c");
  EXPECT_NEAR(levers[1].at_low, 0.85 * 0.90 * 0.9, 1e-12);
  EXPECT_NEAR(levers[1].at_mid, 0.85 * 0.98 * 0.9, 1e-12);
  EXPECT_EQ(levers[2].factor, "eta_h");
  EXPECT_NEAR(levers[2].moves(), 0.02 * 0.98 * 0.9, 1e-12);
  // Inner steps hang on none of them.
  EXPECT_TRUE(LeversOf(u, "inner_steps").empty());
}

TEST(SimulatorUncertainty, WhatTurnsInsideARangeCountsItsMiddle) {
  EXPECT_EQ((Lever{"x", "f", 0, 1, 1, 3, 2}).moves(), 2);
  EXPECT_EQ((Lever{"x", "f", 0, 1, 5, 3, 2}).moves(), 3);
}

constexpr char kPipelines[] =
    "profile = \"governance-pp\"\n[network]\nnodes = 500\n[model]\nparameters_b = 480\n[assume]\n";

TEST(SimulatorUncertainty, PlainNumbersStandInTheModel) {
  const std::string of(kPipelines);
  EXPECT_DOUBLE_EQ(RowOf(of + "q = 0.98").outcome.eta_act, 0.98 * 0.98);
  const Outcome plain = RowOf(of).outcome;
  EXPECT_DOUBLE_EQ(RowOf(of + "byte_ratio = 2").outcome.transfer_time, 2 * plain.transfer_time);
  EXPECT_EQ(RowOf(of + "byte_ratio = 2").outcome.eta_act, plain.eta_act);
  EXPECT_DOUBLE_EQ(RowOf(of + "byte_ratio_backward = 2").outcome.transfer_time,
                   1.5 * plain.transfer_time);
  EXPECT_DOUBLE_EQ(RowOf(of + "byte_ratio_backward = 4\nbyte_ratio = 2").outcome.transfer_time,
                   1.5 * plain.transfer_time)
      << "in whatever order they are written";
  EXPECT_DOUBLE_EQ(RowOf(of + "alpha_scale = 0.5").outcome.alpha, plain.alpha / 2);
  // 480 B in two stages: 250 groups. 2.4/480 of the coefficient for each of log2 250 doublings.
  EXPECT_DOUBLE_EQ(RowOf(of + "replica = 0.5").outcome.eta_r, 1 - 0.5 * 2.4 / 480 * std::log2(250));
  EXPECT_EQ(RowOf(of + "replica = 1\nreplica_floor = 0.99").outcome.eta_r, 0.99);
  EXPECT_DOUBLE_EQ(RowOf(of + "step_time = 0.5").outcome.step_time, plain.step_time / 2);
  EXPECT_EQ(RowOf(of + "eta_h = 0.7").outcome.eta_h, 0.7);
  EXPECT_EQ(RowOf(of + "eta_c = 0.7").outcome.eta_c, 0.7);
  EXPECT_EQ(RowOf(of + "eta_r = 0.7").outcome.eta_r, 0.7);
  // 250 groups: f = 1 + 0.1 log2 250 = 1.79658, for 1 + 0.05 log2 250 = 1.39829.
  EXPECT_NEAR(RowOf(of + "straggler = 0.1").outcome.sync_time / plain.sync_time, 1.79658 / 1.39829,
              1e-5);
  EXPECT_FALSE(Read(of + "q = [0.98, 0.98, 0.98]")->assumptions.uncertain());
}

TEST(SimulatorUncertainty, GammaBendsTheDepth) {
  const std::string eight =
      "profile = \"governance-pp\"\n[network]\nnodes = 4000\n[model]\nparameters_b = 1920\n[assume]\n";
  EXPECT_NEAR(RowOf(eight + "q = 0.98\ngamma = 0.5").outcome.eta_act,
              std::pow(0.98, 2 * std::sqrt(7.0)), 1e-12);
}

TEST(SimulatorUncertainty, TextCsvAndJsonSayTheSame) {
  const absl::StatusOr<ScenarioFile> file =
      Read("[network]\nnodes = [1, 72]\n[assume]\neta_c = [0.90, 0.98, 1.00]\neta_h = 0.85\n");
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<UncertainRow> rows;
  ASSERT_TRUE(RunScenarios(*file, [&](const ResultRow& row) {
                rows.push_back({"a scenario", row.at, Propagate(row.scenario, file->assumptions)});
              }).ok());
  const std::string text = UncertaintyText(*file, rows);
  EXPECT_THAT(text, HasSubstr("triangular"));
  EXPECT_THAT(text, HasSubstr("10000 draws, seed 1"));
  EXPECT_THAT(text, HasSubstr("nothing that is reported moves"));  // one node exchanges nothing
  EXPECT_THAT(text, HasSubstr("##############################"));
  EXPECT_THAT(ProfileText(*file),
              HasSubstr("assume eta_h = 0.85\nassume eta_c = 0.98 in [0.9, 1]\n"));
  const std::string spread = SpreadCsv(*file, rows), tornado = TornadoCsv(*file, rows);
  EXPECT_THAT(spread, testing::StartsWith(
                          "network.nodes,quantity,middle,p05,p25,median,p75,p95\n1,nodes,"));
  EXPECT_THAT(spread, HasSubstr("\n72,eta_c,0.98,0.9"));
  EXPECT_EQ(std::count(spread.begin(), spread.end(), '\n'), 1 + 2 * std::ssize(Quantities()));
  EXPECT_THAT(tornado, HasSubstr("\n72,eta_c,eta_c,0.9,1,0.9,0.98,1,0.0999"));
  const auto json = nlohmann::json::parse(UncertaintyJson(*file, rows));
  ASSERT_EQ(json["scenarios"].size(), 2u);
  EXPECT_EQ(json["scenarios"][1]["at"]["network.nodes"], "72");
  EXPECT_TRUE(json["scenarios"][0]["tornado"].empty());
  for (const auto& s : json["scenarios"][1]["spreads"]) {
    if (s["quantity"] != "c_local") continue;
    EXPECT_EQ(s["median"].get<double>(), SpreadOf(rows[1].uncertainty, "c_local").median);
  }
  EXPECT_EQ(nlohmann::json::parse(JsonHead(*file) + JsonTail())["assume"]["eta_c"]["mid"], 0.98);
}

TEST(SimulatorUncertainty, BadAssumptionsAreOneClearLine) {
  const std::pair<const char*, const char*> rows[] = {
      {"qq = 0.9",
       "plan.toml:4: unknown key 'assume.qq'; known: alpha_scale, byte_ratio, byte_ratio_"},
      {"q = [0.99, 0.98, 0.97]",
       "plan.toml:4: 'assume.q' = [0.99, 0.98, 0.97] is upside down; want [low, mid, high]"},
      {"q = [0.97, 0.995, 0.99]",
       "'assume.q' = [0.97, 0.995, 0.99] has its middle outside its ends; want [low, mid, high]"},
      {"q = [0.97, 0.99]", "'assume.q' is a list of 2; want a number or [low, mid, high]"},
      {"q = []", "'assume.q' is a list of 0; want a number or [low, mid, high]"},
      {"q = 99.5",
       "'assume.q' is 99.5; want 0.01 to 1 kept per crossing and direction, as a share, not in per "
       "cent"},
      {"eta_c = [90, 95, 98]", "'assume.eta_c' is 90; want 0.001 to 1 as a share, not in per cent"},
      {"straggler = 5",
       "'assume.straggler' is 5; want 0 to 1 per doubling of the nodes, as a share"},
      {"step_time = 900", "'assume.step_time' is 900; want 0.01 to 100 times the formula's step"},
      {"byte_ratio = 0.25", "'assume.byte_ratio' is 0.25; want 1 to"},
      {"q = nan", "'assume.q' is nan; want 0.01 to 1"},
      {"replica = 0.01\neta_r = 0.9", "'assume.eta_r' stands in their place; leave one out"},
      {"replica_floor = 0.5\n[switches]\nreplica = \"loss\"", "switches.replica is loss"},
      {"q = [0.9, nan, 1]", "'assume.q' is nan; want 0.01 to 1"},
      {"q = \"high\"", "'assume.q'"},
      {"q = [\"a\", 1, 2]", "an array of numbers"},
      {"seed = -1", "'assume.seed' is -1; want 0 to"}};
  for (const auto& [lines, want] : rows) {
    const std::string error = ErrorOf(Assume(lines));
    EXPECT_THAT(error, HasSubstr(want));
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

TEST(SimulatorUncertainty, RangesNeitherGoWithASearchNorWithTooManyScenarios) {
  EXPECT_THAT(ErrorOf("[search]\nat_least = [1e24]\n[assume]\neta_c = [0.9, 0.95, 1]\n"),
              HasSubstr("plan.toml: a search counts nodes for one value of each factor"));
  EXPECT_EQ(ErrorOf("[search]\nat_least = [1e24]\n[assume]\neta_c = 0.9\n"), "");
  std::string list = "1";
  for (int i = 2; i <= 1001; ++i) list += ", " + std::to_string(i);
  const std::string nodes = "[network]\nnodes = [" + list + "]\n[assume]\n";
  EXPECT_THAT(ErrorOf(nodes + "eta_c = [0.9, 0.95, 1]"), HasSubstr("more than 1000 scenarios"));
  EXPECT_EQ(ErrorOf(nodes + "eta_c = 0.9"), "");
}

}  // namespace
}  // namespace longhaul::simulator
