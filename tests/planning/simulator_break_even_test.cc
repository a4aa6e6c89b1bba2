// Break-even searches: where they change by closed forms and by published values, and what is refused.
#include <cmath>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "planning/simulator/break_even.h"
#include "planning/simulator/simulate.h"
#include "tests/planning/simulator_testing.h"

namespace longhaul::simulator {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;

struct Found {
  ScenarioFile file;
  BreakEven search;
  std::vector<BreakEvenRow> rows;
};

absl::StatusOr<Found> Find(const std::string& text) {
  const absl::StatusOr<TomlValue> root = ParseToml(text, "plan.toml");
  if (!root.ok()) return root.status();
  absl::StatusOr<ScenarioFile> file = ReadScenarioFile(*root);
  if (!file.ok()) return file.status();
  const auto search = ReadBreakEven(*root, *file);
  if (!search.ok()) return search.status();
  auto rows = FindBreakEven(*file, **search);
  if (!rows.ok()) return rows.status();
  return Found{*std::move(file), **search, *std::move(rows)};
}

std::string ErrorOf(const std::string& text) { return std::string(Find(text).status().message()); }

TEST(SimulatorBreakEven, ChangesAreFoundBothWaysAndAtTheEnds) {
  const auto in = [](double low, double high) {
    return [low, high](double x) { return x >= low && x < high; };
  };
  EXPECT_THAT(ChangesOf(in(0.1234567, 0.7), 0, 1),
              ElementsAre(DoubleNear(0.1234567, 1e-9), DoubleNear(0.7, 1e-9)));
  EXPECT_THAT(ChangesOf(in(-1, 2), 0, 1), ElementsAre());
  EXPECT_THAT(ChangesOf(in(1, 2), 0, 1), ElementsAre(1.0)) << "true at the very end";
  EXPECT_THAT(ChangesOf(in(-5, 0.5e-3), 0, 1), ElementsAre(DoubleNear(0.5e-3, 1e-9)));
}

// eta_act = q^(2(S-1)) alone depends on q: at eight stages 0.90 is kept from 0.9^(1/14) on.
TEST(SimulatorBreakEven, EightStagesKeepNineTenthsFromTheFourteenthRootOn) {
  const auto found = Find(R"(
profile = "governance-pp"
network.nodes = 4000
model.parameters_b = [480, 1920]
[break_even]
factor = "q"
from = 0.9
to = 1
target = "eta_act"
at_least = 0.9
)");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->rows[0].changes, ElementsAre(DoubleNear(std::sqrt(0.9), 1e-9)));
  EXPECT_THAT(found->rows[1].changes, ElementsAre(DoubleNear(std::pow(0.9, 1.0 / 14), 1e-9)));
  EXPECT_FALSE(found->rows[1].at_from);
  EXPECT_NEAR(found->rows[1].margin_from, std::pow(0.9, 13), 1e-12);
  EXPECT_NEAR(found->rows[1].margin_to, 1 / 0.9, 1e-12);
  EXPECT_THAT(BreakEvenText(found->file, found->search, found->rows), HasSubstr("from 0.9925"));
  EXPECT_THAT(BreakEvenCsv(found->file, found->search, found->rows),
              testing::StartsWith("model.parameters_b,target,factor,from,to,holds_at_from,"
                                  "margin_from,margin_to,changes\n480,eta_act,q,0.9,1,0,"));
}

// What the planning tables say of 4000 and of 500 nodes: flat training of 240 B is beaten from these on.
TEST(SimulatorBreakEven, PipelinesBeatFlatTrainingFromThePublishedQOn) {
  const std::string search =
      "profile = \"governance-pp\"\n[break_even]\nfactor = \"q\"\nfrom = 0.5\nto = 1\n"
      "target = \"c_quality\"\nbeats = \"flat\"\n[network]\nnodes = ";
  std::string sizes = "[[scenario]]\nname = \"flat\"\nmodel.parameters_b = 240\n";
  for (const char* size : {"360", "480", "600", "720", "960", "1200", "1440", "1920"}) {
    sizes +=
        std::string("[[scenario]]\nname = \"") + size + "\"\nmodel.parameters_b = " + size + "\n";
  }
  const auto at_4000 = Find(search + "4000\n" + sizes);
  ASSERT_TRUE(at_4000.ok()) << at_4000.status();
  EXPECT_TRUE(at_4000->rows[0].at_from) << "it is at least itself";
  const double published[] = {0.858, 0.721, 0.832, 0.796, 0.849, 0.888, 0.917, 0.956};
  for (size_t i = 0; i < 8; ++i) {
    ASSERT_EQ(at_4000->rows[i + 1].changes.size(), 1u) << i;
    EXPECT_NEAR(at_4000->rows[i + 1].changes[0], published[i], 6e-4);  // three digits
  }
  const auto at_500 = Find(search + "500\n" + sizes);
  ASSERT_TRUE(at_500.ok()) << at_500.status();
  for (size_t i = 1; i < 9; ++i) {
    EXPECT_EQ(at_500->rows[i].changes.size(), i == 2 ? 1u : 0u) << i;
    EXPECT_FALSE(at_500->rows[i].at_from);
  }
  EXPECT_EQ(Printed("%.4f", at_500->rows[2].changes[0]), "0.9510");
}

// C_local rises with the rate: the one change is where a plain scan of the model has it.
TEST(SimulatorBreakEven, AKeyOfTheFileIsAFactorToo) {
  const auto found = Find(R"(
network.nodes = 72
[break_even]
factor = "network.wan_mbps"
from = 10
to = 1000
target = "c_local"
at_least = 1.75e25
)");
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->rows[0].changes.size(), 1u);
  const auto local = [](double mbps) {
    Scenario s = A100Nodes(72);
    s.wan_up = s.wan_down = mbps * 1e6;
    return Simulate(s).local;
  };
  EXPECT_GE(local(found->rows[0].changes[0]), 1.75e25);
  EXPECT_LT(local(found->rows[0].changes[0] - 1e-5), 1.75e25);
  const auto json = nlohmann::json::parse(BreakEvenJson(found->file, found->search, found->rows));
  EXPECT_EQ(json["rows"][0]["changes"][0], found->rows[0].changes[0]);
  EXPECT_EQ(json["at_least"], 1.75e25);
}

TEST(SimulatorBreakEven, WhatIsRefused) {
  const auto with = [](std::string_view key, std::string_view value) {
    std::map<std::string, std::string> keys = {{"factor", "\"q\""},
                                               {"from", "0.5"},
                                               {"to", "1"},
                                               {"target", "\"c_local\""},
                                               {"at_least", "1e24"}};
    keys[std::string(key)] = value;
    std::string text = "[network]\nnodes = [4, 72]\n[[scenario]]\nname = \"a\"\n[break_even]\n";
    for (const auto& [name, is] : keys) {
      if (!is.empty()) text += name + " = " + is + "\n";
    }
    return text;
  };
  for (const auto& [text, want] : std::map<std::string, std::string>{
           {with("factor", "\"Q\""), "want one of q, gamma"},
           {with("factor", "\"network.nodes\""), "or a key that holds a number"},
           {with("factor", "\"training.years\""), ""},
           {with("from", "1"), "is not below 'to'"},
           {with("from", "2"), "'break_even.from' is 2; want"},
           {with("to", "1.5"), "1.5"},
           {with("target", "\"c_lokal\""), "want one of nodes"},
           {with("target", "\"percent_of_best\""), "is of a whole table"},
           {with("at_least", ""), "one of the two"},
           {with("beats", "\"a\""), "one of the two"},
           {with("step", "3"), "unknown key 'break_even.step'"}}) {
    EXPECT_THAT(ErrorOf(text), HasSubstr(want)) << text;
  }
  EXPECT_EQ(ErrorOf(with("factor", "\"training.years\"")), "");
  std::string beats = with("at_least", "") + "beats = \"b\"\n";
  EXPECT_THAT(ErrorOf(beats), HasSubstr("names no [[scenario]] of this file"));
  EXPECT_THAT(
      ErrorOf("[training]\nyears = [1, 2]\n[break_even]\nfactor = \"training.years\"\nfrom = 0.5\n"
              "to = 1\ntarget = \"c_local\"\nat_least = 1\n"),
      HasSubstr("is a list in this file"));
}

}  // namespace
}  // namespace longhaul::simulator
