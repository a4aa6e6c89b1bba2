// Tables that a file lays out itself: named scenarios, chosen columns, published values beside what is
// computed; and every table of the published analysis at its printed digits.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "planning/simulator/planning_table.h"
#include "planning/simulator/simulate.h"
#include "planning/simulator/table_columns.h"
#include "tests/doc_table.h"
#include "tests/planning/simulator_testing.h"

namespace longhaul::simulator {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

absl::StatusOr<ScenarioFile> Read(const std::string& text) {
  const absl::StatusOr<TomlValue> root = ParseToml(text, "plan.toml");
  if (!root.ok()) return root.status();
  return ReadScenarioFile(*root);
}

std::string ErrorOf(const std::string& text) { return std::string(Read(text).status().message()); }

std::vector<ResultRow> RowsOf(const ScenarioFile& file) {
  std::vector<ResultRow> rows;
  EXPECT_TRUE(RunScenarios(file, [&](const ResultRow& row) { rows.push_back(row); }).ok());
  return rows;
}

TEST(SimulatorTables, ANamedScenarioIsLaidOverWhatTheFileSaysForAll) {
  const auto file = Read(R"(
[network]
nodes = [72, 500]
[training]
gradient_ratio = 100
[[scenario]]
name = "as all"
[[scenario]]
name = "H100"
profile = "governance-pp"
case = "conservative"
node = { device = "h100", devices = 16, precision = "fp8" }
training = { gradient_ratio = 16 }
[[scenario]]
name = "as all again"
)");
  ASSERT_TRUE(file.ok()) << file.status();
  const std::vector<ResultRow> rows = RowsOf(*file);
  ASSERT_EQ(rows.size(), 6u);
  Scenario s = A100Nodes(72);
  s.gradient_ratio = 100;
  EXPECT_EQ(rows[0].outcome.local, Simulate(s).local);
  EXPECT_EQ(rows[4].outcome.local, Simulate(s).local) << "what the second says does not last";
  Scenario h = ProfileScenario(ProfileName::kGovernancePp);
  h.precision = Precision::kFp8;
  ASSERT_TRUE(SetNode(*FindDevice("h100"), 16, h));
  h.expected = Case::kConservative;
  h.nodes = 500;
  EXPECT_EQ(rows[3].outcome.quality, Simulate(h).quality);
  EXPECT_EQ(rows[3].outcome.local, Simulate(h).local);
  EXPECT_NE(rows[3].outcome.local, rows[1].outcome.local);
  EXPECT_EQ(rows[3].at, (std::vector<size_t>{1, 1}));
  EXPECT_THAT(ProfileText(*file), AllOf(HasSubstr("scenario H100: profile governance-pp"),
                                        HasSubstr("scenario H100: case conservative")));
  EXPECT_THAT(CsvHeader(*file), testing::StartsWith("scenario,network.nodes,"));
}

TEST(SimulatorTables, WhatANamedScenarioMayNotSay) {
  const std::string one = "[[scenario]]\nname = \"a\"\n";
  for (const auto& [text, want] : std::map<std::string, std::string>{
           {"[[scenario]]\nnetwork.nodes = 3\n", "'scenario.name' is missing"},
           {one + one, "stands in two of them"},
           {one + "network.nodes = [2, 3]\n", "a [[scenario]] has one value of each key"},
           {"network.nodes = [2, 3]\n" + one + "network.nodes = 3\n",
            "is a list for all scenarios"},
           {one + "network.node = 3\n", "unknown key 'network.node'"},
           {one + "search.at_least = [1e24]\n", "unknown key 'scenario.search'"},
           {one + "assume.q = 0.9\n", "unknown key 'scenario.assume'"},
           {"[search]\nat_least = [1e24]\n" + one + "network.nodes = 3\n", "looks for the fewest"},
           {"network.wan_mbps = 10\n" + one + "network.wan_up_mbps = 3\n", "is both directions"},
           {"scenario = 3\n", "each under [[scenario]]"},
           {"scenario = []\n", "each under [[scenario]]"},
           {"scenario = [3]\n", "is wanted as [[scenario]]"},
           {"[[scenario]]\nname = \"a,b\"\n", "has a comma or a quote"}}) {
    EXPECT_THAT(ErrorOf(text), AllOf(HasSubstr(want), testing::StartsWith("plan.toml:"))) << text;
    EXPECT_THAT(ErrorOf(text), Not(HasSubstr("\n")));
  }
}

TEST(SimulatorTables, APublishedValueIsComparedAtItsPrintedDigits) {
  EXPECT_EQ(AsPrinted(9.47486e23, "9.52e23"), "9.47e23");
  EXPECT_EQ(AsPrinted(9.47486e23, "9.52e+23"), "9.47e+23");
  EXPECT_EQ(AsPrinted(9.996e23, "9.52e23"), "1.00e24");
  EXPECT_EQ(AsPrinted(0.00124, "1.3e-03"), "1.2e-03");
  EXPECT_EQ(AsPrinted(104.7, "1e2"), "1e2");
  EXPECT_EQ(AsPrinted(97.58, "97"), "98");
  EXPECT_EQ(AsPrinted(97.58, "97.6"), "97.6");
  EXPECT_EQ(ParsePublished("-")->printed, "");
  EXPECT_EQ(ParsePublished("0.862 (misprint: a reason (with brackets))")->misprint,
            "a reason (with brackets)");
  for (const char* bad : {"about 5", "5%", "inf", "nan", "1e", "0x10", "1e999", "5 (because)",
                          "5 (misprint: )", "5 (misprint: x", "1.000000000000000000"}) {
    EXPECT_FALSE(ParsePublished(bad).ok()) << bad;
  }
}

TEST(SimulatorTables, WhatDiffersIsSaidWithItsReasonOrWithoutOne) {
  const auto file = Read(R"toml(
columns = ["c_local", "eta", "percent_of_best"]
[network]
nodes = [4, 72, 500]
[published]
c_local = ["9.52e23 (misprint: nobody knows)", "1.75e25", "1.21e26 (misprint: it is right)"]
eta     = ["0.862", "0.857", "-"]
)toml");
  ASSERT_TRUE(file.ok()) << file.status();
  const PlanningCells cells(*file, RowsOf(*file));
  const std::string text = PlanningText(cells);
  EXPECT_THAT(
      text, HasSubstr("5 published values, compared at their printed digits: 3 agree, 2 do not\n"));
  EXPECT_THAT(text, HasSubstr("misprint: network.nodes 4, c_local: printed 9.52e23, computed "
                              "9.77e23: nobody knows\n"));
  EXPECT_THAT(text, HasSubstr("DIFFERS: network.nodes 72, eta: printed 0.857, computed 0.858\n"));
  EXPECT_THAT(text, HasSubstr("no misprint: network.nodes 500, c_local: printed 1.21e26"));
  EXPECT_THAT(text, HasSubstr("9.77e23 (9.52e23)"));
  const auto json = nlohmann::json::parse(PlanningJson(cells) + JsonTail());
  EXPECT_FALSE(json["rows"][0]["published"]["c_local"]["agrees"]);
  EXPECT_EQ(json["rows"][0]["published"]["c_local"]["misprint"], "nobody knows");
  EXPECT_TRUE(json["rows"][1]["published"]["c_local"]["agrees"]);
  EXPECT_FALSE(json["rows"][2]["published"].contains("eta"));
  EXPECT_NEAR(json["rows"][1]["shown"]["percent_of_best"].get<double>(),
              100 * Simulate(A100Nodes(72)).local / Simulate(A100Nodes(500)).local, 1e-9);
  const std::string csv = PlanningCsv(cells);
  EXPECT_THAT(csv,
              testing::StartsWith("network.nodes,profile,mode,c_local,c_local_published,"
                                  "c_local_agrees,eta,eta_published,eta_agrees,percent_of_best\n"
                                  "4,governance,flat,"));
  EXPECT_THAT(csv, HasSubstr(",9.52e23,0,"));
  EXPECT_THAT(csv, HasSubstr(",1.75e25,1,"));
}

TEST(SimulatorTables, TheBestIsOfTheTableThatARowStandsIn) {
  const std::string two =
      "columns = [\"percent_of_best\"]\n[network]\nnodes = [4, 72]\n"
      "[[scenario]]\nname = \"a\"\n"
      "[[scenario]]\nname = \"b\"\nnode.devices = 24\n";
  const auto by_scenario = Read(two);
  ASSERT_TRUE(by_scenario.ok()) << by_scenario.status();
  const PlanningCells apart(*by_scenario, RowsOf(*by_scenario));
  EXPECT_EQ(apart.cells[1][0].value, 100);
  EXPECT_EQ(apart.cells[3][0].value, 100);
  const auto rows = Read(
      "columns = [\"percent_of_best\"]\n[[scenario]]\nname = \"a\"\nnetwork.nodes = 72\n"
      "[[scenario]]\nname = \"b\"\nnetwork.nodes = 4\n");
  ASSERT_TRUE(rows.ok()) << rows.status();
  const PlanningCells one(*rows, RowsOf(*rows));
  EXPECT_EQ(one.cells[0][0].value, 100);
  EXPECT_NEAR(one.cells[1][0].value, 100 * 9.77407e23 / 1.75076e25, 1e-3);
}

TEST(SimulatorTables, WhatATableMayNotSay) {
  const std::string nodes = "network.nodes = [4, 72]\n";
  for (
      const auto& [text, want] : std::map<std::string, std::string>{
          {"columns = [\"etta\"]\n", "has 'etta'; want some of nodes, gpus"},
          {"columns = []\n", "is an empty list"},
          {"columns = [\"times_threshold\"]\n", "say threshold = FLOP too"},
          {"columns = [\"eta\"]\npublished.eta = \"0.9\"\n" + nodes,
           "has 1 values, and the table has 2 rows"},
          {"columns = [\"eta\"]\npublished.eta = [\"0.9\", 0.8]\n" + nodes,
           "want the digits as they are printed"},
          {"columns = [\"eta\"]\npublished.chi = [\"0.9\", \"-\"]\n" + nodes, "lacks 'chi'"},
          {"columns = [\"eta\"]\npublished.etta = [\"0.9\", \"-\"]\n" + nodes,
           "has no column 'etta'"},
          {"columns = [\"eta\"]\npublished.eta = [\"0.9\", \"good\"]\n" + nodes,
           "is no number as a document prints it"},
          {"columns = [\"eta\"]\npublished.eta = \"1\"\n[[scenario]]\nname = \"a\"\npublished.eta = \"1\"\n",
           "stands here and in [published]"},
          {"columns = [\"eta\"]\nnetwork.nodes = [" +
               [] {
                 std::string list;
                 for (int i = 1; i <= 10001; ++i) list += (i > 1 ? "," : "") + std::to_string(i);
                 return list;
               }() +
               "]\n",
           "more than 10000 rows of a table"}}) {
    EXPECT_THAT(ErrorOf(text), AllOf(HasSubstr(want), testing::StartsWith("plan.toml")))
        << text.substr(0, 80);
  }
}

// Each file of the published analysis: what it prints is what is computed, and what is not has its reason.
TEST(SimulatorTables, EveryPublishedTableAtItsPrintedDigits) {
  std::map<std::string, std::pair<int, int>> counts;  // values, misprints
  for (const auto& entry : std::filesystem::recursive_directory_iterator(LONGHAUL_TEST_SCENARIOS)) {
    if (entry.path().extension() != ".toml") continue;
    SCOPED_TRACE(entry.path().filename());
    const auto root = ReadTomlFile(entry.path());
    ASSERT_TRUE(root.ok()) << root.status();
    const auto file = ReadScenarioFile(*root);
    ASSERT_TRUE(file.ok()) << file.status();
    const PlanningCells cells(*file, RowsOf(*file));
    auto& [values, misprints] = counts[entry.path().stem()];
    for (size_t i = 0; i < cells.cells.size(); ++i) {
      for (size_t c = 0; c < cells.cells[i].size(); ++c) {
        const PlanningCell& cell = cells.cells[i][c];
        if (cell.published.printed.empty()) continue;
        ++values;
        misprints += !cell.published.misprint.empty();
        EXPECT_EQ(cell.agrees, cell.published.misprint.empty())
            << "row " << i << ", " << file->table.columns[c] << ": printed "
            << cell.published.printed << ", computed " << cell.text;
      }
    }
  }
  int values = 0, misprints = 0;
  for (const auto& [name, count] : counts) {
    values += count.first;
    misprints += count.second;
  }
  EXPECT_EQ(counts["5.1-nodes"], std::pair(58, 0));
  EXPECT_EQ(counts["9.5-adverse"], std::pair(14, 5));
  EXPECT_GE(values, 590);
  EXPECT_EQ(misprints, 9);
}

// One micro-batch of two stages waits for all that it does: compute, and each direction's bits at its own
// ratio, headers included. Of three groups each stage has two peers: 20 segments, then 40 and so on until
// they hold 826: six windows and 63 x 20 segments.
TEST(SimulatorTables, TheEnginesTimesByHand) {
  Scenario s = A100Nodes(6);
  s.parameters = 480e9;
  s.micro_batches = 1;
  s.activation_ratio = 4;
  s.backward_ratio = 2;
  const Outcome out = Simulate(s);
  ASSERT_EQ(out.stages, 2);
  ASSERT_EQ(out.groups, 3);
  const double kappa = 1514.0 / 1448, bits = 131072 * 0.03 * std::sqrt(480e9) * 16;
  const double compute = 6 * 480e9 * 131072 / (48 * 312e12 * 0.4);  // of both stages
  const EngineTimes engine = EngineTimesOf(s, out);
  EXPECT_NEAR(engine.step, compute + kappa * bits * (1 / 4.0 + 1 / 2.0) / 1e9 + 0.02, 1e-9);
  const double exchange = kappa * 2 * 480e9 * 16 / 16 / 2;
  EXPECT_NEAR(engine.sync, 6.5 * 0.1 + (exchange - 8 * 63 * 20 * 1514) / 100e6, 1e-6);
  // Links that cost nothing leave what the formula has too: M + S - 1 slots of compute.
  s.micro_batches = 8;
  s.regional_rate = 1e18;
  s.regional_rtt = 0;
  const Outcome free = Simulate(s);
  EXPECT_NEAR(EngineTimesOf(s, free).step, 9 * compute / 16, 1e-6);
  EXPECT_NEAR(free.step_time, 9 * compute / 16, 1e-6);
  s.micro_batches = 1025;
  EXPECT_TRUE(std::isnan(EngineTimesOf(s, Simulate(s)).step));
}

TEST(SimulatorTables, ThePageOfTheEnginesTimesIsWhatTheCommandPrints) {
  const auto root = ReadTomlFile(LONGHAUL_TEST_SCENARIOS "/engine.toml");
  ASSERT_TRUE(root.ok()) << root.status();
  const auto file = ReadScenarioFile(*root);
  ASSERT_TRUE(file.ok()) << file.status();
  const PlanningCells cells(*file, RowsOf(*file));
  ExpectTableInPage(LONGHAUL_TEST_ENGINE_PAGE, "engine", "```\n" + PlanningText(cells) + "```\n");
}

}  // namespace
}  // namespace longhaul::simulator
