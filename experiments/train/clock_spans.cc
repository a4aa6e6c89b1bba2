#include "experiments/train/clock_spans.h"

#include <cmath>

#include <fmt/format.h>

namespace longhaul {

int64_t SpanNanoseconds(double s) { return std::llround(s * 1e9); }

void AddSince(const std::vector<double>& before, const std::vector<double>& now, TraceLane lane,
              const std::string& what, const OuterExchange& exchange,
              std::vector<TraceSpan>* trace) {
  for (size_t rank = 0; rank < now.size(); ++rank) {
    if (now[rank] <= before[rank]) continue;
    trace->push_back({.rank = static_cast<int>(rank),
                      .lane = lane,
                      .what = what,
                      .begin_ns = SpanNanoseconds(before[rank]),
                      .end_ns = SpanNanoseconds(now[rank]),
                      .exchange = exchange.begun,
                      .fragment = exchange.fragment});
  }
}

void AddPipelines(const TrainingClock& clock, const std::vector<double>& begun,
                  const MessageSizes& bytes, std::vector<TraceSpan>* trace) {
  const size_t ranks = clock.group(0).clock().size();
  for (size_t first = 0; first < begun.size(); first += ranks) {
    const Timeline& group = clock.group(static_cast<int>(first / ranks));
    for (size_t r = 0; r < ranks; ++r) {
      const auto add = [&](TraceLane lane, const std::string& what, double begin, double end) {
        if (end <= begin) return;
        trace->push_back({.rank = static_cast<int>(first + r),
                          .lane = lane,
                          .what = what,
                          .begin_ns = SpanNanoseconds(begin),
                          .end_ns = SpanNanoseconds(end)});
      };
      double free = begun[first + r];
      for (const Timeline::Done& done : group.done()[r]) {
        add(TraceLane::kWait, "for " + ToString(done.action), free, done.begin_s);
        add(TraceLane::kCompute, ToString(done.action), done.begin_s, done.end_s);
        free = done.end_s;
      }
      add(TraceLane::kWait, "for the tied head", free, group.clock()[r]);
    }
    for (const Timeline::Carried& c : group.carried()) {
      const int from = static_cast<int>(first) + c.from, to = static_cast<int>(first) + c.to;
      const bool gradient = c.message && c.message->kind == MessageKind::kGradient;
      const auto direction = gradient ? Direction::kBackward : Direction::kForward;
      const auto size = c.message ? bytes.find({direction, from, to}) : bytes.end();
      trace->push_back({.rank = from,
                        .lane = TraceLane::kLink,
                        .what = !c.message
                                    ? std::string("tied head")
                                    : fmt::format("{} {}", gradient ? "gradient" : "activation",
                                                  c.message->microbatch),
                        .begin_ns = SpanNanoseconds(c.times.begun),
                        .end_ns = SpanNanoseconds(c.times.arrived),
                        .peer = to,
                        .bytes = size == bytes.end() ? 0 : std::llround(size->second),
                        .left_ns = SpanNanoseconds(c.times.left)});
    }
  }
}

}  // namespace longhaul
