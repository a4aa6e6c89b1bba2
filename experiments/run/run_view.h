#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "experiments/run/cancel_signal.h"
#include "experiments/run/run_recorder.h"
#include "experiments/spec/spec.h"
#include "experiments/trace/trace_span.h"
#include "plugin/core/clock.h"

namespace longhaul {

// How fast something goes and how long its rest will take, from the first and the last time that it
// was seen. Says nothing before it has seen something done in some time.
class Pace {
 public:
  // `done`: in any unit, never falling.
  void Observe(absl::Duration now, double done);
  std::optional<double> per_second() const;
  // Until `total` is done, at this pace.
  std::optional<absl::Duration> Left(double total) const;

 private:
  struct Seen {
    absl::Duration at;
    double done;
  };
  std::optional<Seen> first_, last_;
};

// "42 s", "12 min", "3.4 h": no finer than such a forecast is.
std::string RoughTime(absl::Duration time);

// What a person sees of one run while it runs: facts and links as they are told, then one line of
// progress a second (rewritten in place on a terminal): step, loss and, from the second step on,
// the time per step and about how long training will take. Prints only what events said.
class RunView {
 public:
  RunView(const RunSpec& spec, std::FILE* out, const Clock& clock);
  void Observe(const nlohmann::json& event);
  void End();  // leaves the progress line

 private:
  void SeeStep(const nlohmann::json& event);
  void Line(const std::string& text);

  const int64_t steps_;
  const int last_stage_;
  std::FILE* const out_;
  const bool terminal_;
  const Clock& clock_;
  Pace pace_;  // in steps, from the end of the first one on
  absl::Duration last_line_ = -absl::InfiniteDuration();
  bool in_progress_line_ = false;
  std::map<int, std::string> loss_;  // by group
};

// Runs one spec in processes of its own to its end, recording and showing its events. OK, or why it
// failed; Cancelled on SIGINT, SIGTERM or SIGHUP, and with SIGTERM a run over loopback that has a
// checkpoint directory first writes one. The run's row is finished either way. `trace` sees the events,
// too; may be null.
absl::Status FollowRun(const RunSpec& spec, const std::string& checkpoint_directory,
                       const CancelSignal& cancel, RunRecorder& recorder, RunView& view,
                       Trace* trace = nullptr);

}  // namespace longhaul
