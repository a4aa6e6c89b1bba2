// What a person sees while a run runs: events in, lines out, by a clock that the test moves.
#include "experiments/run/run_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "experiments/record/row_json.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

class FakeClock : public Clock {
 public:
  absl::Duration Now() const override { return now; }
  absl::Duration now = absl::Hours(5);  // its zero means nothing
};

class RunViewTest : public testing::Test {
 protected:
  RunViewTest() {
    spec_.train.steps = 101;
    spec_.schedule.stages = 2;
  }
  ~RunViewTest() override {
    std::fclose(out_);
    std::free(text_);
  }
  // What the view has printed since the last call.
  std::string Printed() {
    std::fflush(out_);
    const std::string all(text_, length_);
    const std::string fresh = all.substr(seen_);
    seen_ = all.size();
    return fresh;
  }
  void Step(RunView& view, int64_t step) {
    view.Observe(
        {{"event", "step"}, {"step", step}, {"stage", 1}, {"group_index", 0}, {"loss_nat", 3.5}});
  }

  RunSpec spec_{};
  FakeClock clock_;
  char* text_ = nullptr;
  size_t length_ = 0, seen_ = 0;
  std::FILE* out_ = open_memstream(&text_, &length_);
};

TEST_F(RunViewTest, ForecastsTheRestFromTheSecondStepOnAndNothingBefore) {
  RunView view(spec_, out_, clock_);
  Step(view, 1);
  EXPECT_THAT(Printed(), AllOf(EndsWith("step 1/101  loss 3.5000\n"), Not(HasSubstr("left"))));
  clock_.now += absl::Seconds(4);
  Step(view, 3);  // 2 s a step, 98 to go
  EXPECT_THAT(Printed(), EndsWith("2.000 s/step  about 3 min of training left\n"));
  clock_.now += absl::Seconds(2 * 88);
  Step(view, 91);
  EXPECT_THAT(Printed(), EndsWith("about 20 s of training left\n"));
}

TEST_F(RunViewTest, TheLastStepHasNothingLeft) {
  RunView view(spec_, out_, clock_);
  Step(view, 1);
  clock_.now += absl::Seconds(100);
  Step(view, 101);
  view.End();
  EXPECT_THAT(Printed(), AllOf(EndsWith("1.000 s/step\n"), Not(HasSubstr("left"))));
}

// Ten hours of a step a second, 60 links of which one is slow, 200 facts: a screenful.
TEST_F(RunViewTest, HoweverLongAndWideARunIsItsLinesFitAScreen) {
  spec_.train.steps = 36000;
  spec_.net.transport = "ucx";
  spec_.net.profile = "p";
  RunView view(spec_, out_, clock_);
  for (int i = 0; i < 200; ++i) {
    view.Observe({{"event", "fact"}, {"key", "node_fact_" + std::to_string(i)}, {"value", i}});
  }
  view.Observe({{"event", "fact"}, {"key", "engine"}, {"value", "cpu"}});
  LinkRow link{.phase = LinkPhase::kBefore, .src_node = 0, .dst_node = 1, .nominal_rtt_s = 0.065};
  for (int i = 0; i < 60; ++i) {
    link.dst_node = i + 1;
    link.rtt_median_s = i == 17 ? 0.09 : 0.0651;
    link.ok = i != 17;
    link.why = link.ok ? "" : "slow";
    view.Observe(EventOf("link", link));
  }
  for (int64_t step = 1; step <= 36000; ++step) {
    clock_.now += absl::Seconds(1);
    Step(view, step);
  }
  view.End();
  const std::string text = Printed();
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 16) << text;
  EXPECT_THAT(text,
              HasSubstr("links before: 59 of 60 paths ok; worst: RTT 90.00 of 65.00 ms (0 > 18)"));
  EXPECT_THAT(text, HasSubstr("link 0 > 18 OUT OF BOUNDS: slow"));
  EXPECT_THAT(text, HasSubstr("2 workers on p, engine cpu\n"));
  EXPECT_THAT(text, HasSubstr("step 36000/36000"));
  EXPECT_THAT(text, Not(HasSubstr("node_fact")));
}

TEST_F(RunViewTest, EverythingIsThereWhereItIsAskedFor) {
  RunView view(spec_, out_, clock_, RunView::Detail::kAll);
  view.Observe({{"event", "fact"}, {"key", "node_mtu"}, {"value", "1500"}});
  EXPECT_THAT(Printed(), AllOf(HasSubstr("node_mtu"), HasSubstr("1500\n")));
}

// After a resume the first step seen is not the first step there is.
TEST_F(RunViewTest, AResumedRunIsTimedFromWhereItWentOn) {
  RunView view(spec_, out_, clock_);
  Step(view, 90);
  clock_.now += absl::Seconds(3);
  Step(view, 91);
  EXPECT_THAT(Printed(), EndsWith("3.000 s/step  about 30 s of training left\n"));
}

TEST(Pace, SaysNothingBeforeSomethingWasDoneInSomeTime) {
  Pace pace;
  EXPECT_FALSE(pace.per_second());
  EXPECT_FALSE(pace.Left(10));
  pace.Observe(absl::Seconds(1), 0);
  EXPECT_FALSE(pace.per_second());
  pace.Observe(absl::Seconds(20), 0);
  EXPECT_FALSE(pace.per_second());
  EXPECT_FALSE(pace.Left(10));
  pace.Observe(absl::Seconds(21), 5);
  EXPECT_DOUBLE_EQ(*pace.per_second(), 0.25);
  EXPECT_EQ(*pace.Left(10), absl::Seconds(20));
  EXPECT_EQ(*pace.Left(5), absl::ZeroDuration());
}

TEST(RoughTime, IsNoFinerThanAForecastIs) {
  EXPECT_EQ(RoughTime(absl::Milliseconds(300)), "1 s");  // something is left: never "0 s"
  EXPECT_EQ(RoughTime(absl::Milliseconds(41'600)), "42 s");
  EXPECT_EQ(RoughTime(absl::Seconds(99)), "99 s");
  EXPECT_EQ(RoughTime(absl::Seconds(100) - absl::Nanoseconds(1)), "100 s");
  EXPECT_EQ(RoughTime(absl::Seconds(100)), "2 min");
  EXPECT_EQ(RoughTime(absl::Seconds(130)), "2 min");
  EXPECT_EQ(RoughTime(absl::Minutes(100) - absl::Nanoseconds(1)), "100 min");
  EXPECT_EQ(RoughTime(absl::Minutes(100)), "1.7 h");
  EXPECT_EQ(RoughTime(absl::Minutes(150)), "2.5 h");
}

}  // namespace
}  // namespace longhaul
