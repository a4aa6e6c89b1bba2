// Scenario files: what they may say, what comes of lists and searches, what bad input is told.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planning/simulator/result_table.h"
#include "planning/simulator/simulate.h"
#include "tests/planning/simulator_testing.h"

namespace longhaul::simulator {
namespace {

using testing::HasSubstr;

absl::StatusOr<ScenarioFile> Read(const std::string& text) {
  const absl::StatusOr<TomlValue> root = ParseToml(text, "plan.toml");
  if (!root.ok()) return root.status();
  return ReadScenarioFile(*root);
}

std::string ErrorOf(const std::string& text) {
  const absl::StatusOr<ScenarioFile> file = Read(text);
  if (!file.ok()) return std::string(file.status().message());
  return std::string(RunScenarios(*file, [](const ResultRow&) {}).message());
}

std::vector<ResultRow> Rows(const std::string& text) {
  const absl::StatusOr<ScenarioFile> file = Read(text);
  EXPECT_TRUE(file.ok()) << file.status();
  std::vector<ResultRow> rows;
  if (!file.ok()) return rows;
  EXPECT_TRUE(RunScenarios(*file, [&](const ResultRow& row) { rows.push_back(row); }).ok());
  return rows;
}

TEST(SimulatorScenario, AnEmptyFileIsOneNodeOfTheGovernanceProfile) {
  const std::vector<ResultRow> rows = Rows("");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].outcome.local, Simulate(A100Nodes(1)).local);
}

TEST(SimulatorScenario, AFileOfConfigurationFIsConfigurationF) {
  const std::vector<ResultRow> rows = Rows(R"(
[node]
device = "h100"
devices = 16
precision = "fp8"
[network]
nodes = 2000
topology = "hierarchical"
[training]
gradient_ratio = 100
)");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].outcome.local, Simulate(Configuration('F')).local);
}

TEST(SimulatorScenario, ListsMakeEveryCombinationOnce) {
  const std::vector<ResultRow> rows = Rows(
      "case = ['expected', 'conservative']\n[network]\nnodes = [4, 72, 500]\nwan_mbps = [10, "
      "100]\n");
  ASSERT_EQ(rows.size(), 12u);
  EXPECT_EQ(rows[0].scenario.nodes, 4);
  EXPECT_EQ(rows[0].scenario.wan_up, 10e6);
  EXPECT_EQ(rows[1].scenario.wan_down, 100e6);
  EXPECT_EQ(rows[11].scenario.nodes, 500);
  EXPECT_EQ(rows[11].scenario.expected, Case::kConservative);
  EXPECT_NEAR_REL(rows[1].outcome.local, 9.77407e23);
}

TEST(SimulatorScenario, ASearchFindsTheFewestNodes) {
  const std::vector<ResultRow> rows =
      Rows("[node]\ndevices = [48, 25]\n[search]\nat_least = [1e24, 1e26]\n");
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].scenario.nodes, 5);
  EXPECT_EQ(rows[1].scenario.nodes, 413);
  EXPECT_EQ(rows[2].scenario.nodes, 8);
  EXPECT_EQ(rows[3].scenario.nodes, 783);
  EXPECT_GE(rows[3].outcome.local, 1e26);
  EXPECT_FALSE(Rows("[search]\nat_least = [1e26]\nmost_nodes = 412\n")[0].found);
}

TEST(SimulatorScenario, ItsTableNamesProfileReplicaFormAndEverySwitchThatDiffers) {
  const absl::StatusOr<ScenarioFile> file =
      Read("profile = 'latest'\n[switches]\nreplica = 'linear'\nboundary_overlap = true\n");
  ASSERT_TRUE(file.ok()) << file.status();
  const std::string text = ProfileText(*file);
  EXPECT_THAT(text, HasSubstr("profile latest, replica form linear, case expected"));
  EXPECT_THAT(text, HasSubstr("switch replica = linear (profile: loss)"));
  EXPECT_THAT(text, HasSubstr("switch boundary_overlap = on (profile: off)"));
  EXPECT_THAT(JsonHead(*file), HasSubstr(R"("profile":"loss","switch":"replica")"));
  EXPECT_EQ(ProfileText(*Read("")), "profile governance, replica form linear, case expected\n");
}

TEST(SimulatorScenario, FallBacksWarnUnderTheTable) {
  const absl::StatusOr<ScenarioFile> file = Read("[model]\nparameters_b = 960\n");
  ASSERT_TRUE(file.ok());
  ResultText text(*file);
  ASSERT_TRUE(RunScenarios(*file, [&](const ResultRow& row) { text.Add(row); }).ok());
  EXPECT_THAT(text.Text(), HasSubstr("warning: the model needs 4 nodes, there are 1"));
}

TEST(SimulatorScenario, TheCsvHasOneValuePerColumn) {
  const absl::StatusOr<ScenarioFile> file = Read("[network]\nnodes = [4, 72]\n");
  ASSERT_TRUE(file.ok());
  const std::string header = CsvHeader(*file);
  ASSERT_TRUE(RunScenarios(*file, [&](const ResultRow& row) {
                const std::string line = CsvLine(*file, row);
                EXPECT_EQ(std::count(line.begin(), line.end(), ','),
                          std::count(header.begin(), header.end(), ','));
              }).ok());
}

TEST(SimulatorScenario, BadInputIsOneLineWithTheKnownKeys) {
  const std::pair<const char*, const char*> cases[] = {
      {"[network]\nnode = 4\n", "plan.toml:2: unknown key 'network.node'; known: "},
      {"[netwrok]\nnodes = 4\n", "unknown key 'netwrok'; known: "},
      {"profile = 'gov'\n", "'profile' is 'gov'; known: governance, governance-pp"},
      {"[switches]\nreplica = 'log'\n", "'switches.replica' is 'log'; known: linear"},
      {"[network]\nwan_mbps = 100e6\n",
       "'network.wan_mbps' is 100000000; want 0.001 to 10000000"},  // bit/s
      {"[network]\nnodes = 0\n", "'network.nodes' is 0; want 1 to 1000000000"},
      {"[network]\nnodes = [4, 0]\n", "'network.nodes' is 0; want"},
      {"[network]\nnodes = 'many'\n", "'network.nodes' is a string, want an integer"},
      {"[network]\nnodes = 4.5\n", "'network.nodes' is a float"},
      {"[network]\nnodes = []\n", "is an empty list"},
      {"[network]\nnodes = [4, 4]\n", "has a value twice"},
      {"[network]\nwan_mbps = nan\n", "'network.wan_mbps' is nan; want"},
      {"[network]\nwan_mbps = 1\nwan_up_mbps = 2\n", "is both directions"},
      {"[switches]\nchi = 'on'\n", "want true or false"},
      {"[node]\ndevice = 'h200'\n", "'node.device' is 'h200'; known: a100, h100"},
      {"[node]\nprecision = 'fp8'\n", "plan.toml: 'node.device' a100 has no fp8 peak"},
      {"[node]\ndevice = 'tpu-v4'\n", "has no price in the list of profile 'governance'"},
      {"[model]\nactive_b = 300\n", "'model.active_b' is 300, above all parameters"},
      {"[search]\nat_least = [1e24]\n[network]\nnodes = 4\n", "leave one out"},
      {"[search]\n", "'search.at_least' is missing"},
      {"[search]\nat_least = [1e24]\ntarget = 'c'\n", "known: c_local, c_quality, c_raw"},
  };
  for (const auto& [text, want] : cases) {
    SCOPED_TRACE(text);
    const std::string error = ErrorOf(text);
    EXPECT_THAT(error, HasSubstr(want));
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
}

// Whatever the keys' bounds allow has a finite answer, with every efficiency in (0, 1].
TEST(SimulatorScenario, EveryScenarioWithinTheBoundsHasAnAnswer) {
  uint64_t state = 1;
  const auto next = [&state](uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
  };
  int built = 0;
  for (int round = 0; round < 20000; ++round) {
    Draft draft = ProfileDraft(static_cast<ProfileName>(next(4)));
    for (const ScenarioKey& key : ScenarioKeys()) {
      if (next(3) != 0) continue;
      double value = static_cast<double>(next(2));
      if (key.kind == ScenarioKey::Kind::kChoice) {
        value = static_cast<double>(next(key.names.size()));
      } else if (key.kind != ScenarioKey::Kind::kFlag) {
        const double low = std::max(key.least, 1e-9);
        value = low * std::pow(key.most / low, static_cast<double>(next(11)) / 10);
        if (key.kind == ScenarioKey::Kind::kWhole) value = std::floor(value);
        value = std::clamp(value, key.least, key.most);
      }
      key.set(draft, value);
    }
    const absl::StatusOr<Scenario> scenario = draft.Build();
    if (!scenario.ok()) continue;
    ++built;
    const Outcome out = Simulate(*scenario);
    for (const double eta : {out.eta_h, out.eta_c, out.eta_r, out.eta_act, out.chi}) {
      ASSERT_GE(eta, 0) << round;
      ASSERT_LE(eta, 1 + 1e-12) << round;
    }
    for (const double x : {out.raw, out.local, out.quality, out.tokens, out.outer_time, out.cost}) {
      ASSERT_TRUE(std::isfinite(x)) << round;
      ASSERT_GE(x, 0) << round;
    }
    ASSERT_GT(out.raw, 0) << round;
    ASSERT_GE(out.inner_steps, 1) << round;
    ASSERT_GE(out.stages, 1) << round;
  }
  EXPECT_GT(built, 5000);
}

TEST(SimulatorScenario, TooLargeAProductIsRefusedBeforeItStarts) {
  std::string list;
  for (int i = 1; i <= 1100; ++i) list += std::to_string(i) + ",";
  EXPECT_THAT(ErrorOf("[network]\nnodes = [" + list + "]\nwan_mbps = [" + list + "]\n"),
              HasSubstr("the lists make more than 1000000 scenarios"));
}

TEST(SimulatorScenario, EveryShippedScenarioRuns) {
  for (const char* name :
       {"nodes", "wan-rates", "latest", "ranges", "governance/10.1-thresholds"}) {
    SCOPED_TRACE(name);
    const absl::StatusOr<TomlValue> root =
        ReadTomlFile(std::string(LONGHAUL_TEST_SCENARIOS) + "/" + name + ".toml");
    ASSERT_TRUE(root.ok()) << root.status();
    const absl::StatusOr<ScenarioFile> file = ReadScenarioFile(*root);
    ASSERT_TRUE(file.ok()) << file.status();
    size_t rows = 0;
    EXPECT_TRUE(RunScenarios(*file, [&](const ResultRow& row) {
                  ++rows;
                  EXPECT_GT(row.outcome.local, 0);
                }).ok());
    EXPECT_GT(rows, 0u);
  }
}

}  // namespace
}  // namespace longhaul::simulator
