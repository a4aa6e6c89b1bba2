#include "experiments/run/run_pool.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "experiments/run/branches.h"
#include "experiments/run/gpu_sharing.h"
#include "experiments/run/gpu_spread.h"
#include "experiments/run/machine_check.h"
#include "experiments/run/machine_limits.h"
#include "experiments/run/rate_rule.h"
#include "experiments/run/run_process.h"
#include "experiments/run/run_recorder.h"
#include "plugin/core/clock.h"

namespace longhaul {
namespace {

struct Running {
  const PlannedRun* planned;
  std::unique_ptr<RunProcess> process = nullptr;
  std::unique_ptr<RunRecorder> recorder = nullptr;
  int64_t tokens_seen = 0;
  std::optional<int> gpu = std::nullopt;  // that the pool has chosen
};

absl::StatusOr<Running> Start(Record& record, int64_t run, const PlannedRun& planned,
                              const Branching& branching, std::optional<int> gpu) {
  Running running{.planned = &planned, .gpu = gpu};
  RunSpec spec = planned.spec;
  if (gpu) spec.train.device = fmt::format("cuda:{}", *gpu);
  if (const std::string weights = WeightsFolder(record.folder(), planned); !weights.empty()) {
    spec.model.save = weights;
  }
  running.recorder = std::make_unique<RunRecorder>(record, run, planned.spec);
  absl::StatusOr<std::unique_ptr<RunProcess>> process = RunProcess::Start(spec, "", branching);
  if (!process.ok()) return running.recorder->Finish(process.status());
  running.process = *std::move(process);
  return running;
}

// Reads what a run has to say. True: it is over, and `outcome` says how.
absl::StatusOr<bool> Follow(Running& running, CampaignProgress& progress, absl::Status* outcome) {
  const int64_t last_stage = running.planned->spec.schedule.stages - 1;
  ASSIGN_OR_RETURN(EventReader::More more, running.process->Read([&](const nlohmann::json& event) {
    running.recorder->Observe(event);
    if (event.value("event", "") != "step" || event.value("stage", -1) != last_stage) return;
    const int64_t tokens = event.value("tokens", int64_t{0});
    running.tokens_seen += tokens;
    progress.tokens_done += tokens;
  }));
  RETURN_IF_ERROR(running.recorder->Flush());
  if (more == EventReader::More::kYes) return false;
  *outcome = running.recorder->Finish(running.process->Finish());
  return true;
}

// One campaign's runs in one process.
class Pool {
 public:
  Pool(Record& record, int64_t experiment, const std::vector<PlannedRun>& planned,
       const PoolLimits& limits)
      : record_(record),
        experiment_(experiment),
        limits_(limits),
        gpus_(limits.gpus),
        rate_(std::max(1, static_cast<int>(limits.gpus.size()))),
        branches_(record.folder(), planned) {
    progress_.runs = planned.size();
    progress_.tokens = -branches_.SharedTokens();
    for (const PlannedRun& p : planned) {
      todo_.push_back(&p);
      progress_.tokens += TrainTokens(p.spec);
    }
    // Of each seed the trunk first: others wait for it.
    for (auto begin = todo_.begin(); begin != todo_.end();) {
      const auto end = std::find_if(
          begin, todo_.end(), [seed = (*begin)->seed](const auto* p) { return p->seed != seed; });
      std::stable_partition(begin, end, [&](const auto* p) { return branches_.IsTrunk(*p); });
      begin = end;
    }
  }

  // Starts what there is room for and nobody else trains.
  absl::Status Fill();
  // Waits for events; false when the command was asked to end.
  bool Wait(const CancelSignal& cancel, std::vector<size_t>& ready);
  absl::Status Read(size_t i);
  // Ends what runs.
  absl::Status Stop(const absl::Status& why);

  // What the running ones have trained by `now`. True: one more may begin for it.
  bool MeasureRate(absl::Duration now);
  // Since the last call a run that waited can begin.
  bool MoreCanBegin();
  bool over() const { return running_.empty() && (todo_.empty() || !failure_.ok()); }
  const absl::Status& failure() const { return failure_; }
  CampaignProgress progress() const {
    CampaignProgress now = progress_;
    now.running = running_.size();
    return now;
  }

 private:
  absl::StatusOr<int64_t> BusyCores();
  bool Fits(const PlannedRun& next, int64_t busy) const;
  RunRow Row(const PlannedRun& planned) const;
  void Leave(const PlannedRun& planned);
  // For the state that it begins from, which a run that is planned or running will leave.
  bool MustWait(const PlannedRun& planned) const;

  Record& record_;
  const int64_t experiment_;
  const PoolLimits limits_;
  GpuSpread gpus_;
  RateRule rate_;  // where limits_.by_rate
  const Branches branches_;
  CampaignProgress progress_;
  std::vector<const PlannedRun*> todo_;  // neither trained nor running here
  std::vector<Running> running_;
  absl::Status failure_;
  ptrdiff_t ready_ = 0;  // of todo_, whose state is there
};

// By living runs of this campaign, here and in other processes on this machine.
absl::StatusOr<int64_t> Pool::BusyCores() {
  ASSIGN_OR_RETURN(std::vector<RunRow> runs, record_.Runs(experiment_));
  return CoresBusy(runs, ReadRunHost().host);
}

bool Pool::Fits(const PlannedRun& next, int64_t busy) const {
  if (running_.size() >= static_cast<size_t>(limits_.jobs)) return false;
  if (limits_.by_rate && std::ssize(running_) >= rate_.allowed()) return false;
  return busy == 0 || busy + CoresNeeded(next.spec) <= limits_.cores;
}

RunRow Pool::Row(const PlannedRun& planned) const {
  RunRow row = PlannedRow(planned, experiment_);
  if (!limits_.gpu_sharing.empty()) row.facts[kGpuSharingFact] = limits_.gpu_sharing;
  return row;
}

// Another process has trained it.
void Pool::Leave(const PlannedRun& planned) {
  ++progress_.done;
  progress_.tokens -= TrainTokens(planned.spec);
}

bool Pool::MustWait(const PlannedRun& planned) const {
  const PlannedRun* trunk = branches_.TrunkOf(planned);
  if (trunk == nullptr || branches_.Ready(planned)) return false;
  const auto is_trunk = [trunk](const Running& running) { return running.planned == trunk; };
  return std::ranges::find(todo_, trunk) != todo_.end() || std::ranges::any_of(running_, is_trunk);
}

bool Pool::MoreCanBegin() {
  const auto is_ready = [this](const PlannedRun* planned) { return branches_.Ready(*planned); };
  return std::exchange(ready_, std::ranges::count_if(todo_, is_ready)) < ready_;
}

absl::Status Pool::Fill() {
  if (!failure_.ok() || todo_.empty()) return absl::OkStatus();
  if (absl::StatusOr<int> settled = record_.SettleDeadRuns(); !settled.ok()) {
    return settled.status();
  }
  ASSIGN_OR_RETURN(int64_t busy, BusyCores());
  progress_.elsewhere = 0;
  std::vector<const PlannedRun*> left;
  bool full = false;
  for (const PlannedRun* planned : todo_) {
    full = full || !Fits(*planned, busy);
    const bool waits = MustWait(*planned);
    ASSIGN_OR_RETURN(Claim claim,
                     full || waits ? record_.LookUpClaim(experiment_, planned->arm, planned->seed)
                                   : record_.ClaimRun(Row(*planned)));
    if (claim.outcome == Claim::Outcome::kFinished) {
      Leave(*planned);
      continue;
    }
    if (claim.outcome == Claim::Outcome::kElsewhere) ++progress_.elsewhere;
    if (claim.outcome == Claim::Outcome::kElsewhere || full || waits) {
      left.push_back(planned);
      continue;
    }
    ASSIGN_OR_RETURN(Running started,
                     Start(record_, claim.run, *planned, branches_.Of(*planned), gpus_.Take()));
    running_.push_back(std::move(started));
    rate_.Changed(static_cast<int>(running_.size()));
    busy += CoresNeeded(planned->spec);
  }
  todo_ = std::move(left);
  return absl::OkStatus();
}

bool Pool::Wait(const CancelSignal& cancel, std::vector<size_t>& ready) {
  ready.clear();
  std::vector<pollfd> fds = {{cancel.fd(), POLLIN, 0}};
  for (const Running& r : running_) fds.push_back({r.process->events_fd(), POLLIN, 0});
  // Nobody tells when another process ends a run or dies: while runs are left to others, look.
  constexpr int kLookMs = 1000;
  const bool look = failure_.ok() && !todo_.empty();
  const int events = poll(fds.data(), fds.size(), look ? kLookMs : -1);
  if (events <= 0) return true;  // time to look, or interrupted by a signal that is not ours
  if (fds[0].revents != 0) return false;
  for (size_t i = running_.size(); i-- > 0;) {
    if (fds[i + 1].revents != 0) ready.push_back(i);
  }
  return true;
}

absl::Status Pool::Read(size_t i) {
  absl::Status outcome;
  ASSIGN_OR_RETURN(bool over, Follow(running_[i], progress_, &outcome));
  if (!over) return absl::OkStatus();
  const bool an_outcome = absl::IsOutOfRange(outcome) ||
                          (limits_.invalid_is_outcome && absl::IsFailedPrecondition(outcome));
  if (!outcome.ok() && !an_outcome && failure_.ok()) {
    const PlannedRun& planned = *running_[i].planned;
    failure_ =
        absl::Status(outcome.code(), fmt::format("arm '{}', seed {}: {}", planned.arm, planned.seed,
                                                 std::string(outcome.message())));
  }
  branches_.Finished(*running_[i].planned);
  gpus_.GiveBack(running_[i].gpu);
  ++progress_.done;
  running_.erase(running_.begin() + static_cast<ptrdiff_t>(i));
  rate_.Changed(static_cast<int>(running_.size()));
  return absl::OkStatus();
}

bool Pool::MeasureRate(absl::Duration now) {
  const int before = rate_.allowed();
  const auto training =
      std::ranges::count_if(running_, [](const Running& r) { return r.tokens_seen > 0; });
  rate_.Trained(now, progress_.tokens_done, static_cast<int>(training));
  return limits_.by_rate && rate_.allowed() > before;
}

absl::Status Pool::Stop(const absl::Status& why) {
  for (Running& r : running_) {
    r.process->Kill();
    (void)r.recorder->Finish(why);
  }
  return why;
}

}  // namespace

RunRow PlannedRow(const PlannedRun& planned, int64_t experiment) {
  RunRow row = NewRunRow(planned.spec, experiment, planned.arm);
  row.role = planned.role;
  row.budget_fraction = planned.budget_fraction;
  return row;
}

absl::Status RunAll(Record& record, int64_t experiment, const std::vector<PlannedRun>& planned,
                    const PoolLimits& limits, const CancelSignal& cancel,
                    const std::function<void(const CampaignProgress&)>& on_progress) {
  Pool pool(record, experiment, planned, limits);
  std::vector<size_t> ready;
  bool fill = true;
  while (true) {
    if (fill) {
      if (absl::Status s = pool.Fill(); !s.ok()) return pool.Stop(s);
      on_progress(pool.progress());
    }
    if (pool.over()) return pool.failure();
    if (!pool.Wait(cancel, ready)) {
      return pool.Stop(absl::CancelledError(
          fmt::format("interrupted after {} of {} runs; the same command goes on from there",
                      pool.progress().done, pool.progress().runs)));
    }
    const size_t running = pool.progress().running;
    for (const size_t i : ready) {
      if (absl::Status s = pool.Read(i); !s.ok()) return pool.Stop(s);
    }
    on_progress(pool.progress());
    const bool one_more = !ready.empty() && pool.MeasureRate(MonotonicClock().Now());
    // When a place is free, when one more is worth it, when a run need not wait any more, and when nothing came in a second.
    fill = pool.progress().running < running || one_more || pool.MoreCanBegin() || ready.empty();
  }
}

}  // namespace longhaul
