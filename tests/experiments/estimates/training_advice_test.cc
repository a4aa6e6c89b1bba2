// Advice on what widens intervals: just inside and just outside of its bounds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/estimates/training_advice.h"
#include "tests/experiments/spec/specs.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(WarmUpAdvice, IsGivenUnderFivePercentOfTheSteps) {
  RunSpec spec{};
  spec.train.steps = 200;
  spec.train.warmup_steps = 10;
  EXPECT_THAT(WarmUpAdvice(spec), IsEmpty());
  spec.train.warmup_steps = 9;
  EXPECT_THAT(WarmUpAdvice(spec), ElementsAre(HasSubstr("warmup_steps = 9 of 200 steps")));
}

TEST(LinkAdvice, IsGivenWhereLinksAreNamedAndNothingGoesOverThem) {
  RunSpec spec{};
  spec.net.transport = "loopback";
  EXPECT_THAT(LinkAdvice(spec), IsEmpty());
  spec.net.profile = "regional";
  EXPECT_THAT(LinkAdvice(spec), ElementsAre(HasSubstr("net.profile = \"regional\" has no effect")));
  spec.net.clock = "simulated";
  EXPECT_THAT(LinkAdvice(spec), IsEmpty());
  spec.net.profile = LONGHAUL_TEST_LOSSY;
  spec.seed = 7;
  spec.schedule.stages = 4;
  EXPECT_THAT(
      LinkAdvice(spec),
      ElementsAre(HasSubstr("loses packets: which, the simulated clock draws from seed = 7")));
  spec.net.clock = "";
  spec.net.transport = "ucx";
  EXPECT_THAT(LinkAdvice(spec), IsEmpty());
}

RunRow Clipped(const std::string& rank_0, const std::string& rank_1) {
  RunRow run;
  run.facts = {{"rank_0_clipped_steps", rank_0}, {"rank_1_clipped_steps", rank_1}, {"cores", "2"}};
  return run;
}

TEST(ClippingAdvice, IsGivenWhereItActedInUnderFivePercentOfAllSteps) {
  const std::vector<RunRow> enough = {Clipped("0 of 100", "10 of 100"),
                                      Clipped("10 of 100", "0 of 100")};
  EXPECT_THAT(ClippingAdvice(enough), IsEmpty());
  const std::vector<RunRow> hardly = {Clipped("0 of 100", "10 of 100"),
                                      Clipped("9 of 100", "0 of 100")};
  EXPECT_THAT(ClippingAdvice(hardly), ElementsAre(HasSubstr("acted in 19 of 400 steps")));
}

TEST(ClippingAdvice, SaysNothingOfRunsThatDidNotCount) {
  EXPECT_THAT(ClippingAdvice(std::vector<RunRow>(2)), IsEmpty());
}

RunRow OnData(const std::string& seen, const std::string& epochs) {
  RunRow run;
  run.train_tokens = 3'250'000;
  run.facts = {{"held_out_windows_in_training", seen}, {"epochs", epochs}};
  return run;
}

TEST(DataAdvice, SaysWhatIsNoUnseenTextAndWhatIsReadAgain) {
  EXPECT_THAT(DataAdvice(std::vector<RunRow>(2)), IsEmpty());
  EXPECT_THAT(DataAdvice(std::vector<RunRow>{OnData("0 of 512", "1")}), IsEmpty());
  const auto lines = DataAdvice(std::vector<RunRow>{OnData("151 of 512", "0.02")});
  EXPECT_THAT(lines, ElementsAre("note: 151 of 512 held-out windows are in the training text: the "
                                 "held-out loss is lower than that of unseen text"));
  EXPECT_THAT(DataAdvice(std::vector<RunRow>{OnData("0 of 512", "3.25")}),
              ElementsAre(HasSubstr("3.25 epochs: 3250000 training tokens pass")));
  // A campaign's runs say it once.
  EXPECT_THAT(DataAdvice(std::vector<RunRow>(5, OnData("1 of 8", "1.001"))),
              ElementsAre(HasSubstr("1 of 8"), HasSubstr("1.001 epochs")));
}

TEST(WarmUp, OfASpecThatGivesNoneIsWhatTheAdviceAsksFor) {
  for (const int steps : {1, 19, 20, 21, 200, 201}) {
    // 16 rows of 128 tokens a step
    const auto spec = ReadWith({"train.tokens=" + std::to_string(steps * 16 * 128)});
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_THAT(WarmUpAdvice(*spec), IsEmpty()) << steps;
    EXPECT_EQ(spec->train.warmup_steps, (steps + 19) / 20) << steps;
  }
}

}  // namespace
}  // namespace longhaul
