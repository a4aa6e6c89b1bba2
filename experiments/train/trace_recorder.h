#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "experiments/spec/spec.h"
#include "experiments/trace/trace_span.h"
#include "experiments/train/event_stream.h"
#include "experiments/train/local_telemetry.h"
#include "pp_group/rank_span.h"

namespace longhaul {

// What this process has of a run's trace: kept in memory while the traced steps run, and told as
// events behind the last of them, so that telling disturbs none of them. Made by make_shared: who
// tells it keeps it. Begins and ends are driven by one thread, what is told may come from any.
class TraceRecorder : public std::enable_shared_from_this<TraceRecorder> {
 public:
  // `microbatches`: M, which names messages between stages.
  TraceRecorder(TraceSteps steps, int64_t microbatches)
      : steps_(steps), microbatches_(microbatches) {}

  // Of real time: what a local rank, which is `rank` in the run, tells of itself, and what its
  // groups tell of their messages.
  SpanWatch SpansOf(int rank);
  void WatchGroups(const LocalTelemetry& rank);

  void BeginStep(int64_t step);
  bool wanted() const { return wanted_; }  // this step is traced
  void Add(std::vector<TraceSpan> spans);  // of a simulated clock
  // A step of these ranks that lasted so long, in real time.
  void AddStep(const std::vector<LocalTelemetry>& ranks, int64_t step, absl::Duration begin,
               absl::Duration end);
  // Behind the last traced step all that there is.
  void EndStep(int64_t step, EventSink& sink);

 private:
  void Message(const MessageTimes& times, int own, int other, const std::string& channel,
               std::string what);

  const TraceSteps steps_;
  const int64_t microbatches_;
  std::atomic<bool> wanted_ = false;
  std::mutex mu_;
  std::vector<TraceSpan> spans_;  // under mu_
  std::vector<MessageEnd> ends_;  // under mu_
};

}  // namespace longhaul
