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
