#include "experiments/run/run_pool.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "experiments/run/run_process.h"
#include "experiments/run/run_recorder.h"

namespace longhaul {
namespace {

struct Running {
  const PlannedRun* planned;
  std::unique_ptr<RunProcess> process = nullptr;
  std::unique_ptr<RunRecorder> recorder = nullptr;
  int64_t tokens_seen = 0;
};

absl::StatusOr<Running> Start(Record& record, int64_t experiment, const PlannedRun& planned) {
  RunRow row = NewRunRow(planned.spec, experiment, planned.arm);
  row.role = planned.role;
  row.budget_fraction = planned.budget_fraction;
  absl::StatusOr<int64_t> run = record.BeginRun(row);
  if (!run.ok()) return run.status();
  Running running{.planned = &planned};
  running.recorder = std::make_unique<RunRecorder>(record, *run, planned.spec);
  absl::StatusOr<std::unique_ptr<RunProcess>> process = RunProcess::Start(planned.spec, "");
  if (!process.ok()) {
    (void)running.recorder->Finish(process.status());
    return process.status();
  }
  running.process = *std::move(process);
  return running;
}

// Reads what a run has to say. True: it is over, and `outcome` says how.
absl::StatusOr<bool> Follow(Running& running, CampaignProgress& progress, absl::Status* outcome) {
  const int64_t last_stage = running.planned->spec.schedule.stages - 1;
  absl::StatusOr<EventReader::More> more = running.process->Read([&](const nlohmann::json& event) {
    running.recorder->See(event);
    if (event.value("event", "") != "step" || event.value("stage", -1) != last_stage) return;
    const int64_t tokens = event.value("tokens", int64_t{0});
    running.tokens_seen += tokens;
    progress.tokens_done += tokens;
  });
  if (!more.ok()) return more.status();
  if (absl::Status s = running.recorder->Flush(); !s.ok()) return s;
  if (*more == EventReader::More::kYes) return false;
  *outcome = running.process->Finish();
  if (absl::Status s = running.recorder->Finish(*outcome); !s.ok()) return s;
  return true;
}

}  // namespace

absl::Status RunAll(Record& record, int64_t experiment, const std::vector<PlannedRun>& planned,
                    int jobs, const CancelSignal& cancel,
                    const std::function<void(const CampaignProgress&)>& on_progress) {
  CampaignProgress progress{.runs = planned.size()};
  for (const PlannedRun& p : planned) progress.tokens += TrainTokens(p.spec);
  std::vector<Running> running;
  size_t next = 0;
  absl::Status failure;
  const auto interrupt = [&](const absl::Status& why) {
    for (Running& r : running) {
      r.process->Kill();
      (void)r.recorder->Finish(why);
    }
    return why;
  };
  while (!running.empty() || (failure.ok() && next < planned.size())) {
    while (failure.ok() && next < planned.size() && running.size() < static_cast<size_t>(jobs)) {
      absl::StatusOr<Running> started = Start(record, experiment, planned[next++]);
      if (!started.ok()) return interrupt(started.status());
      running.push_back(*std::move(started));
    }
    std::vector<pollfd> fds = {{cancel.fd(), POLLIN, 0}};
    for (const Running& r : running) fds.push_back({r.process->events_fd(), POLLIN, 0});
    if (poll(fds.data(), fds.size(), -1) < 0 && errno == EINTR) continue;
    if (fds[0].revents != 0) {
      return interrupt(absl::CancelledError(
          fmt::format("interrupted after {} of {} runs; the same command goes on from there",
                      progress.done, progress.runs)));
    }
    for (size_t i = running.size(); i-- > 0;) {
      if (fds[i + 1].revents == 0) continue;
      absl::Status outcome;
      absl::StatusOr<bool> over = Follow(running[i], progress, &outcome);
      if (!over.ok()) return interrupt(over.status());
      if (!*over) continue;
      if (!outcome.ok() && !absl::IsOutOfRange(outcome) && failure.ok()) {
        failure = absl::UnavailableError(
            fmt::format("arm '{}', seed {}: {}", running[i].planned->arm, running[i].planned->seed,
                        std::string(outcome.message())));
      }
      ++progress.done;
      running.erase(running.begin() + static_cast<ptrdiff_t>(i));
    }
    progress.running = running.size();
    on_progress(progress);
  }
  return failure;
}

}  // namespace longhaul
