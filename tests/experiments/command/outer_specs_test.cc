// Every outer algorithm by its spec in experiments/specs, shortened: it runs, says its source, learns
// something, and sends what is planned. The long form: system_runs.h.
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/spec/known_names.h"
#include "pp_group/outer/outer_rules.h"
#include "tests/experiments/command/system_runs.h"

namespace longhaul {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class OuterSpecs : public testing::TestWithParam<std::string> {};

TEST_P(OuterSpecs, RunAndSendWhatIsPlanned) {
  const std::string path = std::string(LONGHAUL_SPECS) + "/outer-" + GetParam() + ".toml";
  const std::string text = ReadFile(path);
  ASSERT_THAT(text, StartsWith("# Source: ")) << path;
  const std::string_view source = FindOuterRule(GetParam())->source;
  EXPECT_THAT(text.substr(0, text.find('\n')), HasSubstr(source.substr(0, source.find(','))));
  std::vector<std::string> sets;
  if (!LongSystems()) {
    sets = {"train.steps=26", "eval.rows=8", "train.warmup_steps=2"};
    if (!ExchangesGradients(GetParam())) sets.push_back("outer.inner_steps=12");
  }
  const RunSpec spec = *LoadRunSpec(path, sets, CatalogNames());
  EXPECT_EQ(spec.outer.algorithm, GetParam());

  ScratchFolder scratch;
  const SystemRun run = RunSystem(path, sets, scratch.path() + "/results");
  ASSERT_EQ(run.result.exit_status, 0) << run.result.output;
  ExpectItLearns(run, 0.05);
  PlannedShare share;
  // Few places in many, as gradients have them, take fewer bits than those of noise.
  if (GetParam() == "dgc") share.apart = 0.02;
  if (GetParam() == "diloco-x") share.is_bound = true;  // its rank follows the deltas
  ExpectPlannedBytes(path, sets, run, share);
  if (LongSystems()) ExpectWhatLongSystemsHold(path, sets, run);
}

// docs/outer.md: its first table has what the rule says, the others have the name.
TEST_P(OuterSpecs, AreOnTheirPage) {
  const OuterRule& rule = *FindOuterRule(GetParam());
  std::istringstream page(ReadFile(std::string(LONGHAUL_SPECS) + "/../../docs/outer.md"));
  std::vector<std::string> rows;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with('|') && line.find("`" + GetParam() + "`") != std::string::npos) {
      rows.push_back(line);
    }
  }
  ASSERT_GE(rows.size(), 4u) << "what it does, bytes, memory, golden";
  const std::string& row = rows.front();
  ASSERT_THAT(row, StartsWith("| `" + GetParam() + "` | "));
  const std::string figures = row.substr(row.rfind(" | "));
  EXPECT_THAT(figures, StartsWith(rule.crosses == OuterRule::Crosses::kGradients
                                      ? " | -, -, "
                                      : fmt::format(" | {:g}, {:g}, ", rule.lr, rule.momentum)));
  EXPECT_THAT(figures,
              HasSubstr(rule.codec.empty() ? "a choice" : fmt::format("`{}`", rule.codec)));
  const std::map<std::string_view, std::string> inner = {
      {"adamw", "AdamW"},         {"muon", "Muon"},         {"sgd", ", SGD"},
      {"plain-sgd", "plain SGD"}, {"sign-sgd", "sign-SGD"}, {"onebit-adam", "`onebit-adam` |"}};
  EXPECT_THAT(figures, HasSubstr(inner.at(rule.inner)));
  EXPECT_EQ(figures.find("overlap H") != std::string::npos, rule.late_round);
  EXPECT_EQ(figures.find(fmt::format("mix {:g}", rule.mix)) != std::string::npos, rule.mix > 0);
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const std::string_view name : OuterNames()) names.emplace_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Table, OuterSpecs, testing::ValuesIn(Names()), [](const auto& info) {
  std::string name = info.param;
  std::erase(name, '-');
  return name;
});

}  // namespace
}  // namespace longhaul
