#include "experiments/estimates/training_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/record/record_rows.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ArmResult Arm(const std::string& name, const std::vector<double>& off,
              const std::vector<double>& on, const std::string& unigram) {
  ArmResult arm{};
  arm.arm = name;
  for (size_t i = 0; i < off.size(); ++i) {
    Outcome o{};
    o.run.seed = static_cast<int64_t>(i);
    if (!unigram.empty()) o.run.facts[kUnigramFact] = unigram;
    o.loss_off = off[i];
    o.loss_on = on[i];
    arm.outcomes.push_back(o);
  }
  return arm;
}

// Three seeds, sd 0.02: the interval is the mean -+ 4.303 x 0.02 / sqrt 3 = 0.0497.
TEST(LearntNothing, AnArmAtTheUnigramEntropyIsNamedWithBothFigures) {
  CampaignAnalysis a;
  a.arms.push_back(Arm("topk", {4.4, 4.5, 4.6}, {3.61, 3.63, 3.65}, "3.620000"));
  a.arms.push_back(Arm("margin", {3.570, 3.571, 3.572}, {3.58, 3.58, 3.58}, "3.619"));
  a.arms.push_back(Arm("learnt", {3.54, 3.56, 3.58}, {3.6, 3.6, 3.6}, "3.62"));
  a.arms.push_back(Arm("unknown", {3.6, 3.6, 3.6}, {3.6, 3.6, 3.6}, ""));
  const std::vector<std::string> lines = LearntNothing(a);
  EXPECT_THAT(lines, ElementsAre(AllOf(HasSubstr("arm 'topk' learnt no more than byte frequencies"),
                                       HasSubstr("3.630 [3.580, 3.680] nat (codec on)"),
                                       HasSubstr("held-out tokens is 3.620")),
                                 HasSubstr("arm 'margin'")));
}

// Within its interval, though further below than the margin.
TEST(LearntNothing, AnArmWhoseIntervalHoldsTheEntropyIsNamed) {
  CampaignAnalysis a;
  a.arms.push_back(Arm("wide", {3.4, 3.5, 3.6}, {3.4, 3.5, 3.6}, "3.7"));
  EXPECT_THAT(LearntNothing(a), ElementsAre(HasSubstr("arm 'wide'")));  // 3.5 -+ 0.248
  a.arms = {Arm("narrow", {3.4, 3.5, 3.6}, {3.4, 3.5, 3.6}, "3.75")};
  EXPECT_THAT(LearntNothing(a), IsEmpty());
}

TEST(LearntNothing, OneRunIsJudgedByItsLastEvaluations) {
  RunRow run{};
  run.facts[kUnigramFact] = "3.62";
  const std::vector<EvaluationRow> early = {{10, EvalCodec::kOff, 5.5, 0, 0},
                                            {20, EvalCodec::kOff, 3.58, 0, 0}};
  EXPECT_THAT(LearntNothing(run, early), ElementsAre(HasSubstr("this run learnt no more")));
  EXPECT_THAT(
      LearntNothing(run, {{10, EvalCodec::kOff, 3.6, 0, 0}, {20, EvalCodec::kOff, 3.5, 0, 0}}),
      IsEmpty());
  EXPECT_THAT(LearntNothing(run, {}), IsEmpty());
}

}  // namespace
}  // namespace longhaul
