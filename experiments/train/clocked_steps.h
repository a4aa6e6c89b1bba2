#pragma once

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "experiments/train/local_telemetry.h"
#include "experiments/train/simulated_clock.h"
#include "pp_group/trainer.h"

namespace longhaul {

// Moves a simulated clock with a training in this process, all of whose ranks are here.
class ClockedSteps {
 public:
  // Borrows the clock.
  explicit ClockedSteps(SimulatedClock& clock) : clock_(clock) {}

  // After a step: tells the clock what messages had, as they were received in it. `trace` and errors:
  // SimulatedClock::Step's. Internal: other groups did the step here than on the clock.
  absl::Status After(const std::vector<LocalTelemetry>& ranks,
                     const std::vector<StepReport>& reports,
                     std::vector<TraceSpan>* trace = nullptr);
  // When the report's step would have ended for its stage's rank, and what that had of messages by
  // then (of the boundaries what was received, of exchanges the frames that were sent).
  SimulatedRow Of(const StepReport& report) const;

 private:
  struct Received {
    int64_t messages = 0, bytes = 0;
  };
  void Tell(Direction direction, int64_t from, const LocalTelemetry& to,
            const CrossingCounters& now);
  absl::Status CheckGroups(const std::vector<StepReport>& reports) const;

  SimulatedClock& clock_;
  // By ranks of the run, and the life of the one that received.
  std::map<std::tuple<Direction, int64_t, int64_t, int>, Received> before_;
  std::map<std::pair<int, int>, int64_t> bytes_;  // by group and stage
};

}  // namespace longhaul
