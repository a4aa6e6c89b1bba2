// A published campaign computed anew from its losses: docs/results/activation-small. The numbers are
// those of estimators_scipy.py on the same file.
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/record/record.h"
#include "tests/experiments/command/command_line.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

const std::string kSpec = LONGHAUL_SPECS "/activation-small.toml";

std::string PublishedLosses() {
  std::ifstream file(LONGHAUL_RESULTS "/activation-small/losses.csv");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

CommandResult Measured(const ScratchFolder& scratch, const std::string& losses) {
  return RunLonghaul({"measure", kSpec, "--from-losses", scratch.File("losses.csv", losses),
                      "--results", scratch.path() + "/results"});
}

TEST(FromLosses, APublishedCampaignIsComputedAnewWithoutTraining) {
  ScratchFolder scratch;
  const CommandResult result = Measured(scratch, PublishedLosses());
  ASSERT_EQ(result.exit_status, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("nothing was trained"));
  EXPECT_THAT(result.output, HasSubstr("true eta 0.9026, recovered 0.900 [0.897, 0.904]"));
  const Record record = *Record::Open(scratch.path() + "/results", Record::Mode::kRead);
  int found = 0;
  const std::vector<EstimateRow> estimates = *record.Estimates(1);
  for (const EstimateRow& row : estimates) {
    if (row.evaluation != "off" || row.quantity != "ln_eta") continue;
    if (row.arm == "P-both-s8") {
      EXPECT_NEAR(*row.value, -0.32988314015272896, 1e-9);
      EXPECT_NEAR(*row.low, -0.41855986951942065, 1e-9);
      EXPECT_NEAR(*row.high, -0.24120641078603727, 1e-9);
      ++found;
    }
    if (row.arm == "control@0.9") {
      EXPECT_NEAR(*row.low, -0.10848425826447439, 1e-9);
      ++found;
    }
  }
  EXPECT_EQ(found, 2);
  const std::vector<RunRow> runs = *record.Runs(1);
  for (const RunRow& run : runs) {
    EXPECT_EQ(run.host, "") << "no machine trained it";
    EXPECT_THAT(run.reason, HasSubstr("losses read from a file"));
  }
  // Once more, from what the record holds.
  EXPECT_EQ(Measured(scratch, PublishedLosses()).output, result.output);
}

TEST(FromLosses, AFileThatIsNotOfThePlanIsRefusedByLine) {
  const std::string good = PublishedLosses();
  const size_t second = good.find('\n') + 1, third = good.find('\n', second) + 1;
  const std::string first_row = good.substr(second, third - second);
  std::string other_tokens = good, other_codec = good, not_finite = good;
  other_tokens.replace(good.find(",139264,"), 8, ",139265,");
  other_codec.replace(good.find("none / none"), 11, "bf16 / none");
  const size_t loss = good.find(",139264,") + 8;
  not_finite.replace(loss, good.find(',', loss) - loss, "nan");
  std::string foreign = first_row;
  foreign.replace(0, foreign.find(','), "stranger");
  for (const auto& [text, want] :
       {std::pair<std::string, const char*>{"name,value\n", "losses.csv:1: not a losses.csv"},
        {"\xef\xbb\xbf" + good.substr(0, second) + good.substr(third),
         "no row of arm 'reference@0.35', seed 1"},
        {good + first_row, "arm 'reference@0.35', seed 1 stands there twice"},
        {good + foreign, "the plan has no arm 'stranger' at seed 1"},
        {other_tokens, "losses.csv:2: arm 'reference@0.35' has 1 stages, none / none, 139265"},
        {other_codec,
         "has 1 stages, bf16 / none, 139264 tokens; in the plan 1 stages, none / none"},
        {not_finite,
         "losses.csv:2: stages, seed, budget, train_tokens and losses are finite numbers"},
        {good + "a,b\n", "2 cells, not 10"}}) {
    ScratchFolder scratch;
    const CommandResult result = Measured(scratch, text);
    EXPECT_EQ(result.exit_status, 1) << want;
    EXPECT_THAT(result.output, HasSubstr(want));
    EXPECT_FALSE(std::filesystem::exists(scratch.path() + "/results")) << want;
  }
}

}  // namespace
}  // namespace longhaul
