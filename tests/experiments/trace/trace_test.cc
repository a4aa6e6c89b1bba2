// Traces by hand: the file of a tiny one byte for byte, what both ends of a message make, and how much
// of an exchange was exposed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/trace/trace_span.h"

namespace longhaul {
namespace {

constexpr TraceLane kWork = TraceLane::kExchange, kWaits = TraceLane::kExchangeWait;

Trace TraceOf(const std::vector<TraceSpan>& spans, const std::vector<MessageEnd>& ends) {
  Trace trace;
  for (const nlohmann::json& event : EventsOf(spans, ends)) {
    EXPECT_LT(event.dump().size(), 4096u) << "a pipe takes no more at once";
    trace.Observe(nlohmann::json::parse(event.dump()));
  }
  trace.Observe({{"event", "step"}, {"rank", 0}});
  return trace;
}

constexpr char kTiny[] = R"json({"displayTimeUnit":"ms",
"otherData":{"steps":"1 to 1"},
"traceEvents":[
{"name":"process_name","ph":"M","pid":0,"tid":0,"args":{"name":"rank 0"}},
{"name":"process_sort_index","ph":"M","pid":0,"tid":0,"args":{"sort_index":0}},
{"name":"process_name","ph":"M","pid":1,"tid":0,"args":{"name":"rank 1"}},
{"name":"process_sort_index","ph":"M","pid":1,"tid":0,"args":{"sort_index":1}},
{"name":"thread_name","ph":"M","pid":0,"tid":1,"args":{"name":"compute"}},
{"name":"thread_sort_index","ph":"M","pid":0,"tid":1,"args":{"sort_index":1}},
{"name":"0F0","cat":"compute","ph":"X","pid":0,"tid":1,"ts":0.0001,"dur":2500.000,"args":{}},
{"name":"thread_name","ph":"M","pid":0,"tid":2,"args":{"name":"link 0 > 1"}},
{"name":"thread_sort_index","ph":"M","pid":0,"tid":2,"args":{"sort_index":2}},
{"name":"activation 0","cat":"link","ph":"X","pid":0,"tid":2,"ts":2500.0001,"dur":29500.000,"args":{"bytes":612}},
{"name":"thread_name","ph":"M","pid":0,"tid":3,"args":{"name":"link 0 > 1 (2)"}},
{"name":"thread_sort_index","ph":"M","pid":0,"tid":3,"args":{"sort_index":3}},
{"name":"activation 1","cat":"link","ph":"X","pid":0,"tid":3,"ts":5000.0001,"dur":29500.000,"args":{"bytes":612}},
{"name":"thread_name","ph":"M","pid":1,"tid":1,"args":{"name":"wait"}},
{"name":"thread_sort_index","ph":"M","pid":1,"tid":1,"args":{"sort_index":1}},
{"name":"1F0: \"x\"","cat":"wait","ph":"X","pid":1,"tid":1,"ts":0.0011,"dur":31999.999,"args":{}}
]}
)json";

// A pass of 2.5 ms, and two messages of which the second leaves before the first is there. The one
// that nobody received is not drawn.
TEST(ChromeTrace, ATinyOneByHand) {
  const Trace trace =
      TraceOf({{.rank = 0,
                .lane = TraceLane::kCompute,
                .what = "0F0",
                .begin_ns = 1'000'000'000,
                .end_ns = 1'002'500'000},
               {.rank = 1,
                .lane = TraceLane::kWait,
                .what = "1F0: \"x\"",
                .begin_ns = 1'000'000'001,
                .end_ns = 1'032'000'000}},
              {{0, 1, true, "boundary/0 t0", 0, 612, 1'002'500'000, "activation 0"},
               {0, 1, false, "boundary/0 t0", 0, 612, 1'032'000'000, "activation 0"},
               {0, 1, true, "boundary/0 t0", 1, 612, 1'005'000'000, "activation 1"},
               {0, 1, false, "boundary/0 t0", 1, 612, 1'034'500'000, "activation 1"},
               {0, 1, true, "boundary/0 t0", 2, 612, 1'007'500'000, "activation 2"}});
  EXPECT_EQ(ChromeTrace(trace.Spans(), {"rank 0", "rank 1"}, {{"steps", "1 to 1"}}), kTiny);
}

// More spans than a line takes go in several, and none is lost.
TEST(Trace, ManySpansGoInLinesThatAPipeTakes) {
  std::vector<TraceSpan> spans;
  for (int i = 0; i < 500; ++i) {
    spans.push_back({.rank = i % 3,
                     .lane = TraceLane::kCompute,
                     .what = std::string(200, 'x'),
                     .begin_ns = int64_t{1} << 60,
                     .end_ns = (int64_t{1} << 60) + i});
  }
  EXPECT_EQ(TraceOf(spans, {}).Spans().size(), 500u);
}

// Two groups of two ranks. Rank 0 of each begins at 10 s and has the other's values at 14 s, of which it
// worked half a second; its group's norms come a second later. Rank 1 of each was done at 7 s and waits
// for longer, in what is its bubble. The second group waits a second less. A step takes 10 s.
TEST(ExposedTime, IsWhatTheRankLostThatItCostLeastOfTheGroupThatItCostMost) {
  const auto s = [](double v) { return static_cast<int64_t>(v * 1e9); };
  const auto of = [&](int rank, TraceLane lane, const char* what, double begin, double end) {
    TraceSpan span{
        .rank = rank, .lane = lane, .what = what, .begin_ns = s(begin), .end_ns = s(end)};
    if (lane != TraceLane::kStep) span.exchange = 8;
    return span;
  };
  std::vector<TraceSpan> spans;
  for (const int group : {0, 1}) {
    const int first = 2 * group;
    spans.push_back(of(first, TraceLane::kStep, "step 8", 0, 14.5 - group));
    spans.push_back(of(first + 1, TraceLane::kStep, "step 8", 0, 14.5 - group));
    spans.push_back(of(first, kWork, "encode", 10, 10.25));
    TraceSpan link = of(first, TraceLane::kLink, "exchange", 10.25, 13);
    link.peer = 2 - first;
    spans.push_back(link);
    spans.push_back(of(first, kWaits, "receive", 10.25 + group, 13));
    spans.push_back(of(first, kWaits, "norms of the group's stages", 13, 14));
    spans.push_back(of(first, kWork, "apply", 14, 14.25));
    spans.push_back(of(first + 1, kWaits, "receive", 7, 14.5));
  }
  const auto exposed = ExposedTimeOf(spans, {{8, 0}, {9, 0}}, 2);
  ASSERT_TRUE(exposed);
  EXPECT_EQ(exposed->exchanges, 1) << "there is none of step 9";
  EXPECT_DOUBLE_EQ(exposed->took_s, 3 + 1);
  EXPECT_DOUBLE_EQ(exposed->waited_s, 2.75 + 1);
  EXPECT_DOUBLE_EQ(exposed->worked_s, 0.5);
  EXPECT_DOUBLE_EQ(exposed->step_s, 14 - 4.25);
  EXPECT_NEAR(exposed->share(), 4.25 / 9.75, 1e-12);
  EXPECT_FALSE(ExposedTimeOf(spans, {{9, 0}}, 2));
  EXPECT_THAT(TextOf(*exposed),
              testing::HasSubstr("takes 4 s; exposed are 4.25 s, 43.6 % of a step"));
}

}  // namespace
}  // namespace longhaul
