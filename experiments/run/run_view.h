#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "experiments/record/record_rows.h"
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

// "8 of 8 paths ok; worst: RTT 65.13 of 65.02 ms (1 > 3), goodput 95.64 of 95.64 Mbit/s (0 > 1), 63
// drops (0 > 2)": the worst figure of each kind, with its path. Below it a line for each path that is
// out of bounds, of three at most. `links`: of one phase, at least one.
std::string WorstOfLinks(std::span<const LinkRow> links);

// What a person sees of one run while it runs: what runs where, the worst figures of the links, then
// progress (one line rewritten in place on a terminal, some ten lines elsewhere): step, loss and,
// from the second step on, the time per step and about how long training will take. With kAll every
// fact and link has a line. Prints only what events said.
class RunView {
 public:
  enum class Detail { kScreen, kAll };
  RunView(const RunSpec& spec, std::FILE* out, const Clock& clock, Detail detail = Detail::kScreen);
  void Observe(const nlohmann::json& event);
  void End();  // prints what waits, and leaves the progress line

 private:
  void SeeFact(const std::string& key, const std::string& value);
  void SeeLink(const LinkRow& link);
  void SeeStep(const nlohmann::json& event);
  void ShowWhere();
  void Settle();
  void Line(const std::string& text);

  const std::string what_;  // workers and links of the spec
  const int64_t steps_;
  const int last_stage_;
  std::FILE* const out_;
  const bool terminal_;
  const Detail detail_;
  const Clock& clock_;
  Pace pace_;  // in steps, from the end of the first one on
  absl::Duration last_line_ = -absl::InfiniteDuration();
  int64_t next_step_ = 0;  // of which a line is due where there is no terminal
  std::string last_step_;  // a line that waits for the other groups
  bool in_progress_line_ = false;
  std::map<std::string, std::string> where_;  // facts, by key
  bool where_shown_ = false;
  std::set<std::string> said_;
  std::vector<LinkRow> links_;       // of one phase, not yet shown
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
