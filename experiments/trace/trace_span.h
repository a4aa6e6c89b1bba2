#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace longhaul {

// The lanes that a rank has in a trace; kLink: one for each rank that it sends to.
enum class TraceLane {
  kStep,          // a step from its begin to its end
  kCompute,       // passes and updates
  kSend,          // inside a send; encoding, where that is done there
  kWait,          // for a tensor, or for a buffer that is still being sent
  kExchange,      // work on what crosses between groups: encoding, decoding, applying
  kExchangeWait,  // for what crosses between groups
  kEncode,        // beside the rank's own thread, like the next
  kDecode,
  kLink,  // a message, from when it is given to its link until all of it is there
};
constexpr int kTraceLanes = static_cast<int>(TraceLane::kLink) + 1;

// What a rank or one of its links did from one moment to another, in nanoseconds of one clock.
struct TraceSpan {
  int rank;  // of the run: group * P + rank of the pipeline
  TraceLane lane;
  std::string what;  // "2F0"
  int64_t begin_ns = 0, end_ns = 0;
  // Of an exchange between groups: the step after which it was begun (of gradients: in which they
  // cross), and its fragment; else 0.
  int64_t exchange = 0, fragment = 0;
  // Of a link.
  int peer = -1;        // the rank that is sent to
  int64_t bytes = 0;    // with the message's own headers
  int64_t left_ns = 0;  // when the last byte had left, on a simulated clock
  double seconds() const { return static_cast<double>(end_ns - begin_ns) * 1e-9; }
};

// One end of a message: when its sender gave it to the link, or when its receiver had all of it.
struct MessageEnd {
  int from, to;
  bool sent;
  std::string channel;  // names it with `sequence` among those from `from` to `to`
  uint64_t sequence;
  int64_t bytes;
  int64_t at_ns;
  std::string what;
};

// As events of a run, each line short enough for its pipe (train/event_stream.h).
std::vector<nlohmann::json> EventsOf(const std::vector<TraceSpan>& spans,
                                     const std::vector<MessageEnd>& ends);

// Collects a trace from the events of all processes of a run; other events are passed over.
class Trace {
 public:
  void Observe(const nlohmann::json& event);
  // By rank, lane, peer and time. A message of which both ends were told is a span of its link; one
  // that was under way when the trace began or ended is left out. What goes over a link named
  // "outer" is of the exchange that its sender was last at work on.
  std::vector<TraceSpan> Spans() const;
  // Ranks that have told their end of `step`.
  int RanksThatEnded(int64_t step) const;

 private:
  using Key = std::tuple<int, int, std::string, uint64_t>;
  struct Ends {
    int64_t sent_ns = -1, arrived_ns = -1, bytes = 0;
    std::string what = {};
  };
  std::vector<TraceSpan> spans_;
  std::map<Key, Ends> ends_;
};

std::string StepSpanName(int64_t step);

// Spans, sorted as Trace::Spans sorts them, in the JSON of Chrome's traces, which ui.perfetto.dev
// and chrome://tracing open: a process for each rank, a thread for each of its lanes and links.
// Times are in microseconds from the first span on. What overlaps on one lane (messages that follow
// each other before the first is there, two coders) is drawn on a second thread of the same name.
// `process_names` [ranks]; `about`: what stands in its "otherData".
std::string ChromeTrace(const std::vector<TraceSpan>& spans,
                        const std::vector<std::string>& process_names,
                        const std::vector<std::pair<std::string, std::string>>& about);

// How much of the exchanges between groups was not hidden behind compute: means over exchanges, each
// as the rank has it that it cost least in the group that it cost most. (What the other ranks of a
// group wait holds bubbles of its pipeline, in which they would have stood without an exchange too.)
struct ExposedTime {
  int64_t exchanges = 0;
  // From its begin until all that was sent to the rank was there, and its own had left; then until
  // the ranks of the group had told each other norms.
  double took_s = 0;
  double waited_s = 0;  // the rank stood still for it
  double worked_s = 0;  // encoding, decoding, applying: in place of the training's own compute
  double step_s = 0;    // of a rank, without what exchanges cost
  double exposed_s() const { return waited_s + worked_s; }
  double share() const { return step_s > 0 ? exposed_s() / step_s : 0; }
};

// Of these exchanges, each the step after which it was begun and its fragment, which lie whole in
// the trace; groups have so many ranks. nullopt: none of them is there.
std::optional<ExposedTime> ExposedTimeOf(const std::vector<TraceSpan>& spans,
                                         const std::vector<std::pair<int64_t, int64_t>>& exchanges,
                                         int ranks_of_group);

// "an exchange between groups takes 0.834 s; ...", one line.
std::string TextOf(const ExposedTime& exposed);

}  // namespace longhaul
