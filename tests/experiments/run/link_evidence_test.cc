// What a lab saw of its links while a run trained, at the bounds of what is evidence: no lab.
#include "experiments/run/link_evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

class Facts : public EventSink {
 public:
  void Emit(const nlohmann::json& event) override {
    if (event.value("event", "") == "fact") {
      told[event.value("key", "")] = event.value("value", "");
    }
  }
  std::map<std::string, std::string> told;
};

RunSpec Shape(int64_t stages, int64_t groups) {
  RunSpec spec{};
  spec.schedule.stages = stages;
  spec.outer.groups = groups;
  return spec;
}

// Of three stages in two groups: 0-1, 1-2 and 3-4, 4-5; then 0-3, 1-4, 2-5; each both ways.
TEST(UsedPairs, AreNeighboursOfAPipelineAndPeersOfAStage) {
  EXPECT_THAT(UsedPairs(Shape(3, 2)),
              ElementsAre(Pair(0, 1), Pair(1, 0), Pair(1, 2), Pair(2, 1), Pair(3, 4), Pair(4, 3),
                          Pair(4, 5), Pair(5, 4), Pair(0, 3), Pair(3, 0), Pair(1, 4), Pair(4, 1),
                          Pair(2, 5), Pair(5, 2)));
  EXPECT_THAT(UsedPairs(Shape(1, 3)),
              ElementsAre(Pair(0, 1), Pair(1, 0), Pair(0, 2), Pair(2, 0), Pair(1, 2), Pair(2, 1)));
  EXPECT_TRUE(UsedPairs(Shape(1, 1)).empty());
  RunSpec tied = Shape(3, 1);
  tied.model.tied_head = true;
  EXPECT_THAT(UsedPairs(tied),
              ElementsAre(Pair(0, 1), Pair(1, 0), Pair(1, 2), Pair(2, 1), Pair(0, 2), Pair(2, 0)));
  tied.schedule.stages = 2;
  EXPECT_THAT(UsedPairs(tied), ElementsAre(Pair(0, 1), Pair(1, 0)));
}

Lateness Late(int64_t frames, int64_t late, absl::Duration max) {
  return {.frames = frames, .late_frames = late, .max = max, .lead = absl::Microseconds(42)};
}

TEST(JudgeLateness, HalfASecondIsAStandstillThatAStepMustHaveSeen) {
  const auto judged = [](absl::Duration before, absl::Duration after) {
    Facts facts;
    return JudgeLateness(Late(10, 0, before), Late(20, 0, after), facts);
  };
  const absl::Duration half = absl::Milliseconds(500), nanosecond = absl::Nanoseconds(1);
  EXPECT_TRUE(judged({}, half - nanosecond).ok());
  EXPECT_EQ(judged({}, half).code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(judged({}, absl::Milliseconds(812)).message()),
              HasSubstr("a frame left 812 ms late, bound 500 ms"));
  EXPECT_TRUE(judged(half, half).ok()) << "it was before they trained";
  EXPECT_FALSE(judged(half, half + nanosecond).ok());
}

TEST(JudgeLateness, TellsWhatWasWhileTheyTrainedAndOneInAHundredIsTheTail) {
  Facts facts;
  ASSERT_TRUE(JudgeLateness(Late(1000, 50, {}), Late(1200, 52, absl::Milliseconds(3)), facts).ok());
  EXPECT_THAT(facts.told,
              ElementsAre(Pair("emulator_frames", "200"), Pair("emulator_frames_late_1ms", "2"),
                          Pair("emulator_latest_ms", "3.000"), Pair("emulator_lead_us", "42"),
                          Pair("emulator_p99_in_bound", "yes")));
  ASSERT_TRUE(JudgeLateness(Late(1000, 50, {}), Late(1199, 52, {}), facts).ok());
  EXPECT_EQ(facts.told["emulator_p99_in_bound"], "no") << "2 of 199";
  Facts none;
  EXPECT_TRUE(JudgeLateness({}, Late(0, 0, absl::Hours(1)), none).ok());
  EXPECT_TRUE(none.told.empty()) << "the kernel's netem tells nothing";
}

TEST(JudgeUnread, AThousandthIsForgiven) {
  Facts facts;
  EXPECT_TRUE(JudgeUnread(7, 8, 1000, facts).ok());
  EXPECT_EQ(facts.told["emulator_unread_frames"], "1");
  const absl::Status lost = JudgeUnread(7, 8, 999, facts);
  EXPECT_EQ(lost.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(lost.message()), HasSubstr("1 of 1000 frames were lost"));
  EXPECT_TRUE(JudgeUnread(7, 7, 0, facts).ok());
  EXPECT_TRUE(JudgeUnread(-1, 9, 0, facts).ok()) << "unknown";
  EXPECT_TRUE(JudgeUnread(0, -1, 0, facts).ok()) << "unknown";
}

TEST(NoEvidence, NamesEveryCauseInOrderWithTheFirstOnesCode) {
  EXPECT_TRUE(NoEvidence({}).ok());
  EXPECT_TRUE(NoEvidence({absl::OkStatus(), absl::OkStatus()}).ok());
  const absl::Status both = NoEvidence({absl::OkStatus(), absl::AbortedError("late"),
                                        absl::OkStatus(), absl::UnavailableError("slow")});
  EXPECT_EQ(both.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(both.message(), "trained to the end, but its times are no evidence: late; slow");
}

}  // namespace
}  // namespace longhaul
