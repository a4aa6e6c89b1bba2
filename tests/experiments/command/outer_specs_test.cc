// Every outer algorithm by its spec in experiments/specs, shortened: it runs, says its source, learns
// something, and sends what is planned.
#include <filesystem>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/record/record.h"
#include "experiments/spec/known_names.h"
#include "experiments/spec/plans_of_spec.h"
#include "experiments/train/traffic.h"
#include "pp_group/outer/outer_rules.h"
#include "tests/experiments/command/command_line.h"

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
  std::vector<std::string> sets = {"train.steps=26", "eval.rows=8", "train.warmup_steps=2"};
  if (!ExchangesGradients(GetParam())) sets.push_back("outer.inner_steps=12");
  const RunSpec spec = *LoadRunSpec(path, sets, CatalogNames());
  EXPECT_EQ(spec.outer.algorithm, GetParam());

  ScratchFolder scratch;
  std::vector<std::string> arguments = {"run", path, "--results", scratch.path() + "/results"};
  for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
  const CommandResult result = RunLonghaul(arguments);
  ASSERT_EQ(result.exit_status, 0) << result.output;
  const Record record = *Record::Open(scratch.path() + "/results", Record::Mode::kRead);
  const std::vector<StepRow> steps = *record.Steps(1);
  double first = 0, last = 0;
  for (const StepRow& row : steps) {
    if (row.loss_nat && row.step == 1) first = *row.loss_nat;
    if (row.loss_nat && row.step == 26) last = *row.loss_nat;
  }
  EXPECT_LT(last, first - 0.05);

  std::map<std::pair<int64_t, int64_t>, double> planned;
  const std::vector<PlannedCrossing> crossings = *PlanCrossings(spec);
  for (const PlannedCrossing& c : crossings) {
    if (c.direction != Direction::kOuter) continue;
    planned[{c.src_rank, c.dst_rank}] += static_cast<double>(c.turns) * *MessageBytes(c);
  }
  EXPECT_FALSE(planned.empty());
  size_t counted = 0;
  const std::vector<CrossingRow> rows = *record.Crossings(1);
  for (const CrossingRow& row : rows) {
    if (row.direction != Direction::kOuter || row.tensors == 0) continue;
    const double plan = planned[{row.src_rank, row.dst_rank}];
    const auto bytes = static_cast<double>(row.message_bytes);
    if (GetParam() == "diloco-x") {  // its rank follows the deltas; planned is that of noise
      EXPECT_LE(bytes, plan);
      EXPECT_GT(bytes, plan / 2);
    } else {
      // Few places in many, as gradients have them, take fewer bits than those of noise.
      const double share = GetParam() == "dgc" ? 0.02 : 0.005;
      EXPECT_NEAR(bytes, plan, share * plan) << row.src_rank << " > " << row.dst_rank;
    }
    ++counted;
  }
  EXPECT_EQ(counted, planned.size());
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
