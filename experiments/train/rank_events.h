#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "experiments/record/row_json.h"
#include "experiments/train/error_windows.h"
#include "experiments/train/event_stream.h"
#include "experiments/train/local_telemetry.h"
#include "pp_group/trainer.h"

namespace longhaul {

class ClockedSteps;

// What the ranks of this process tell the recorder (experiments/run/run_recorder.h).

inline double Seconds(absl::Duration d) { return absl::ToDoubleSeconds(d); }

// A row as an event of one rank.
template <typename Row>
void EmitRow(const char* kind, int rank, const Row& row, EventSink& sink) {
  nlohmann::json event = EventOf(kind, row);
  event["rank"] = rank;
  sink.Emit(event);
}

// Coding on a rank's boundary since its group was made.
struct CodecTime {
  absl::Duration encode = absl::ZeroDuration(), decode = absl::ZeroDuration();
};
CodecTime CodecTimeOf(const LocalTelemetry& rank);
using CodecTimes = std::map<std::pair<int, int>, CodecTime>;  // by rank and life

// `clocked` has seen the step; null: no simulated clock. `times`: as they were after the step before;
// brought up to date.
void EmitSteps(const std::vector<StepReport>& reports, const std::vector<LocalTelemetry>& ranks,
               const ClockedSteps* clocked, CodecTimes& times, EventSink& sink);
// What the boundaries' senders measured in this step, and windows that end with it.
void EmitErrors(int64_t step, const std::vector<LocalTelemetry>& ranks, WindowedErrors& errors,
                EventSink& sink);
// Since its life began. `checkpoint`: the step after which one was written; 0: of the training.
void EmitCrossings(const LocalTelemetry& rank, int64_t checkpoint, EventSink& sink);
// What a joiner has received from group `giver`, through a backend of the two.
void EmitState(const LocalTelemetry& rank, int giver, ProcessGroupLonghaul& pair, EventSink& sink);
// Of the node's interface; none: nothing.
void EmitKernelCounters(const std::string& interface, const char* phase,
                        const std::vector<LocalTelemetry>& ranks, EventSink& sink);
void EmitEvaluation(const Evaluation& e, EvalCodec codec, int64_t step, int rank, EventSink& sink);
// In how many of this process's steps a clip group of the rank was scaled down.
void EmitClipping(const std::map<int, int64_t>& clipped, int64_t steps, EventSink& sink);
// Of the process whose first rank it names; "predicted_worker_bytes" stands beside it. `gpu`: the
// one that its stages are on.
void EmitMemory(int rank, std::optional<int> gpu, EventSink& sink);

}  // namespace longhaul
