#include "experiments/train/run_loop.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "experiments/elastic/membership.h"
#include "experiments/record/record_rows.h"
#include "experiments/record/row_json.h"
#include "experiments/train/boundary_codecs.h"
#include "experiments/train/clocked_steps.h"
#include "experiments/train/error_windows.h"
#include "experiments/train/phase_gate.h"
#include "experiments/train/rank_events.h"
#include "experiments/train/saving.h"
#include "experiments/train/stall_detector.h"
#include "experiments/train/trace_recorder.h"
#include "plugin/core/clock.h"

namespace longhaul {
namespace {

void EmitStall(StallDetector& stalls, int rank, const RunLoopOptions& options, EventSink& sink) {
  if (options.phase_fd < 0) return;  // no links whose times would mean something
  const Disturbance disturbed = stalls.Disturbed();
  nlohmann::json event = {{"event", "stillness"},
                          {"rank", rank},
                          {"longest_s", Seconds(stalls.Longest())},
                          {kStillShareFact, disturbed.still}};
  if (disturbed.core_wait) event[kCoreWaitShareFact] = *disturbed.core_wait;
  if (disturbed.stolen) event[kStolenShareFact] = *disturbed.stolen;
  sink.Emit(event);
}

// With the boundary codec off and on. A codec that sends the source's own bytes is off and on at
// once: one pass says both.
absl::Status EvaluateBoth(Trainer& trainer, const RunLoopOptions& options, int rank,
                          EventSink& sink) {
  const auto off = trainer.Evaluate(BoundaryCodec::kOff, options.eval_rows);
  if (!off.ok()) return off.status();
  if (*off) EmitEvaluation(**off, EvalCodec::kOff, trainer.step(), rank, sink);
  ASSIGN_OR_RETURN(const auto on, options.forward_is_identity
                                      ? off
                                      : trainer.Evaluate(BoundaryCodec::kOn, options.eval_rows));
  if (on) EmitEvaluation(*on, EvalCodec::kOn, trainer.step(), rank, sink);
  return absl::OkStatus();
}

// OutOfRange of the trainer names step, group and stage; this adds the verdict and what to do.
absl::Status WithAdvice(const absl::Status& status) {
  if (!absl::IsOutOfRange(status)) return status;
  return absl::OutOfRangeError(
      absl::StrCat("diverged in ", std::string(status.message()),
                   "; lower train.lr or train.clip_norm, or lengthen train.warmup_steps"));
}

// A checkpoint, which is written while training goes on, and what had been counted by then, so that
// a resumed run can count on from there. When ranks pass the gate, each has the file of the
// checkpoint before.
absl::Status SaveAndCount(Trainer& trainer, const std::vector<LocalTelemetry>& ranks,
                          const RunLoopOptions& options, StallDetector& stalls, Saving& saving,
                          FdEventSink& sink) {
  // The one before is on the disk before its successor is copied: memory holds one of them, and
  // what strikes in this write does not strike in that one.
  RETURN_IF_ERROR(saving.writer.Finish());
  Membership* const membership = options.membership;
  if (membership != nullptr) {
    std::string directory = options.checkpoint_directory;
    RETURN_IF_ERROR(membership->BeforeCheckpoint(trainer.step(), &directory));
    saving.forgiving.Divert(trainer.step(), directory);
  }
  const absl::Duration start = MonotonicClock().Now();
  absl::StatusOr<std::vector<Checkpoint>> snapshot = trainer.Snapshot();
  saving.copying += MonotonicClock().Now() - start;
  if (!snapshot.ok()) return snapshot.status();
  RETURN_IF_ERROR(saving.writer.Begin(*std::move(snapshot)));
  if (membership != nullptr) membership->AfterCheckpoint(trainer.step());
  for (const LocalTelemetry& r : ranks) EmitCrossings(r, trainer.step(), sink);
  EmitStall(stalls, ranks.front().rank, options, sink);
  PassPhase(options.phase_fd, CheckpointPhase(trainer.step()));
  for (const LocalTelemetry& r : ranks) {
    if (!r.lowest) continue;
    sink.Emit({{"event", "checkpoint"}, {"rank", r.rank}, {"step", trainer.step()}});
  }
  return sink.status();
}

// Of an outer step with a keeper, or of one that left a group out; by one process of all.
absl::Status AfterOuterStep(Trainer& trainer, const StepReport& report, int rank,
                            const RunLoopOptions& options, EventSink& sink) {
  Membership* membership = options.membership;
  if (membership == nullptr && report.left_out.empty()) return absl::OkStatus();
  RoundRow row{.round = options.outer.RoundOf(report.step),
               .last_step = report.step,
               .members = absl::StrJoin(report.members, " "),
               .left_out = absl::StrJoin(report.left_out, " "),
               .attempts = report.attempts,
               .waited_s = Seconds(report.met)};
  bool tells = report.group == report.members.front() && report.stage == 0;
  if (membership != nullptr) {
    RETURN_IF_ERROR(membership->AfterRound(trainer, &row));
    tells = membership->TellsOf(report.members);
  }
  if (tells) EmitRow("round", rank, row, sink);
  return absl::OkStatus();
}

// The loop over steps of one process, and what it tells of them.
class Training {
 public:
  Training(Trainer& trainer, const std::vector<LocalTelemetry>& all_ranks,
           const RunLoopOptions& options, StallDetector& stalls, Saving& saving, FdEventSink& sink)
      : trainer_(trainer),
        all_ranks_(all_ranks),
        options_(options),
        stalls_(stalls),
        saving_(saving),
        sink_(sink),
        errors_(options.steps) {
    for (const LocalTelemetry& r : all_ranks) codec_time_[{r.rank, r.life}] = CodecTimeOf(r);
  }
  absl::Status ToTheEnd();

 private:
  const std::vector<LocalTelemetry>& ranks() const {
    return options_.membership == nullptr ? all_ranks_ : options_.membership->ranks();
  }
  bool CheckpointIsDue() const {
    return options_.checkpoint_every > 0 && trainer_.step() % options_.checkpoint_every == 0 &&
           trainer_.step() < options_.steps;
  }
  absl::Status Save(const std::vector<LocalTelemetry>& ranks) {
    return SaveAndCount(trainer_, ranks, options_, stalls_, saving_, sink_);
  }
  absl::Status Step();
  absl::Status TellTimes(const std::vector<StepReport>& reports, absl::Duration begin);
  absl::Status TellStep(const std::vector<StepReport>& reports);
  absl::Status AfterStep(const std::vector<StepReport>& reports);
  absl::Status LeaveForBranches();
  absl::Status Stop();

  Trainer& trainer_;
  const std::vector<LocalTelemetry>& all_ranks_;
  const RunLoopOptions& options_;
  StallDetector& stalls_;
  Saving& saving_;
  FdEventSink& sink_;
  CodecTimes codec_time_;           // by rank and life
  std::map<int, int64_t> clipped_;  // by rank
  WindowedErrors errors_;
};

absl::Status Training::ToTheEnd() {
  const int64_t begun = trainer_.step();
  // The others, who handed the state over, write theirs and wait for this one.
  if (options_.joins && CheckpointIsDue()) {
    RETURN_IF_ERROR(Save(all_ranks_));
  }
  while (trainer_.step() < options_.steps) {
    RETURN_IF_ERROR(Step());
  }
  if (options_.trains) EmitClipping(clipped_, trainer_.step() - begun, sink_);
  RETURN_IF_ERROR(trainer_.FinishSends());
  const absl::Status written = saving_.writer.Finish();
  (void)TellUnwritten(saving_, all_ranks_.front(), sink_);
  EmitWriting(saving_, all_ranks_.front().rank, sink_);
  return written;
}

absl::Status Training::Step() {
  const int64_t step = trainer_.step() + 1;
  if (options_.capture) options_.capture->BeginStep(step);
  if (options_.codecs) options_.codecs->BeginStep(step);
  if (options_.membership != nullptr) {
    RETURN_IF_ERROR(options_.membership->BeforeStep(trainer_, step));
  }
  if (options_.trace != nullptr) options_.trace->BeginStep(step);
  const absl::Duration begin = MonotonicClock().Now();
  ASSIGN_OR_RETURN(const std::vector<StepReport> reports, trainer_.Step());
  if (options_.membership != nullptr) options_.membership->AfterStep(reports);
  RETURN_IF_ERROR(TellTimes(reports, begin));
  RETURN_IF_ERROR(TellStep(reports));
  return AfterStep(reports);
}

// On the simulated clock, where the run has one, and to its trace.
absl::Status Training::TellTimes(const std::vector<StepReport>& reports, absl::Duration begin) {
  TraceRecorder* const trace = options_.trace.get();
  const bool traced = trace != nullptr && trace->wanted();
  if (options_.clocked != nullptr) {
    std::vector<TraceSpan> spans;
    RETURN_IF_ERROR(options_.clocked->After(ranks(), reports, traced ? &spans : nullptr));
    if (traced) trace->Add(std::move(spans));
  } else if (traced) {
    trace->AddStep(ranks(), trainer_.step(), begin, MonotonicClock().Now());
  }
  if (traced) trace->EndStep(trainer_.step(), sink_);
  return absl::OkStatus();
}

absl::Status Training::TellStep(const std::vector<StepReport>& reports) {
  EmitSteps(reports, ranks(), options_.clocked, codec_time_, sink_);
  for (const StepReport& r : reports) {
    for (const OuterDelta& d : r.outer_deltas) {
      const OuterDeltaRow row{.step = r.step,
                              .group_index = r.group,
                              .stage = r.stage,
                              .fragment = d.fragment,
                              .squared_norm = d.squared_norm,
                              .last_squared_norm = d.last_squared_norm,
                              .dot = d.dot,
                              .member_norm = d.member_norm};
      EmitRow("outer_delta", ranks().front().rank, row, sink_);
    }
  }
  if (options_.codecs) {
    for (const CodecSwitchRow& s : options_.codecs->Take()) {
      EmitRow("codec_switch", ranks().front().rank, s, sink_);
    }
  }
  EmitErrors(trainer_.step(), ranks(), errors_, sink_);
  if (options_.capture) {
    RETURN_IF_ERROR(options_.capture->EndStep());
  }
  std::map<int, bool> clips;  // by rank, of any of its stages
  for (const StepReport& r : reports) {
    for (const LocalTelemetry& rank : ranks()) {
      if (rank.group != r.group || rank.stage != r.stage) continue;
      clips[rank.rank] |= r.clipped_groups > 0;
    }
  }
  for (const auto& [rank, scaled] : clips) clipped_[rank] += scaled;
  return sink_.status();
}

// The round, where the step ended one; checkpoints.
absl::Status Training::AfterStep(const std::vector<StepReport>& reports) {
  const StepReport& first = reports.front();
  const bool comes_and_goes = options_.membership != nullptr;
  if (first.outer_synced && !first.members.empty()) {
    RETURN_IF_ERROR(AfterOuterStep(trainer_, first, ranks().front().rank, options_, sink_));
    // Everybody has the others' deltas: what has been counted has crossed, whoever is lost next.
    if (comes_and_goes) {
      for (const LocalTelemetry& r : ranks()) EmitCrossings(r, /*checkpoint=*/0, sink_);
    }
  }
  RETURN_IF_ERROR(saving_.writer.Poll());
  (void)TellUnwritten(saving_, ranks().front(), sink_);
  RETURN_IF_ERROR(LeaveForBranches());
  if (trainer_.step() < options_.steps && options_.stop_asked && options_.stop_asked()) {
    return Stop();
  }
  return CheckpointIsDue() ? Save(ranks()) : absl::OkStatus();
}

absl::Status Training::LeaveForBranches() {
  const Branching& branching = options_.branching;
  if (std::ranges::find(branching.leave_after, trainer_.step()) == branching.leave_after.end()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::vector<Checkpoint> snapshot, trainer_.Snapshot());
  const std::string folder = branching.FolderAfter(trainer_.step());
  for (const Checkpoint& checkpoint : snapshot) {
    RETURN_IF_ERROR(WriteCheckpoint(folder, checkpoint));
  }
  return absl::OkStatus();
}

// Cancelled, with a checkpoint; or why there is none.
absl::Status Training::Stop() {
  absl::Status s = Save(ranks());
  if (s.ok()) s = saving_.writer.Finish();
  if (s.ok()) s = TellUnwritten(saving_, ranks().front(), sink_);
  if (!s.ok()) return s;
  return absl::CancelledError(absl::StrCat(kAskedToStop, trainer_.step(), ", with a checkpoint"));
}

// Of the process whose first rank it names.
constexpr char kPassedOverFact[] = "checkpoint_passed_over_by_rank_";

void EmitPassedOver(const std::vector<std::string>& passed_over, int64_t step, int rank,
                    EventSink& sink) {
  for (const std::string& why : passed_over) {
    sink.Emit({{"event", "fact"},
               {"key", absl::StrCat(kPassedOverFact, rank)},
               {"value", absl::StrCat("went on from step ", step, ": ", why)}});
  }
}

// From the newest checkpoint of another run, and what that changes and leaves behind.
absl::Status Restore(Trainer& trainer, const std::string& from, int rank, FdEventSink& sink) {
  ASSIGN_OR_RETURN(const Restored restored, trainer.RestoreFrom(from));
  EmitPassedOver(restored.passed_over, restored.step, rank, sink);
  const auto fact = [&](const char* key, const nlohmann::json& value) {
    sink.Emit({{"event", "fact"}, {"key", key}, {"value", value}});
  };
  fact("restored_step", restored.step);
  fact("restored_from", from);
  if (!restored.changes.empty()) fact("restored_changes", restored.changes);
  if (!restored.dropped.empty()) fact("restored_without", absl::StrJoin(restored.dropped, "; "));
  return sink.status();
}

absl::Status EmitFailure(const absl::Status& failure, const Trainer& trainer, int rank,
                         FdEventSink& sink) {
  sink.EmitFailure(rank, trainer.step(), failure);
  return failure;
}

}  // namespace

absl::Status RunLoop(Trainer& trainer, const std::vector<LocalTelemetry>& ranks,
                     const RunLoopOptions& options, FdEventSink& sink) {
  const int rank = ranks.front().rank;
  absl::Status status;
  if (!options.checkpoint_directory.empty() && options.resumes && !options.joins) {
    std::vector<std::string> passed_over;
    status = trainer.LoadCheckpoint(options.checkpoint_directory, &passed_over);
    EmitPassedOver(passed_over, trainer.step(), rank, sink);
    if (absl::IsNotFound(status)) status = absl::OkStatus();  // nothing to resume from
    if (status.ok() && trainer.step() > 0) {
      sink.Emit({{"event", "fact"}, {"key", "resumed_from_step"}, {"value", trainer.step()}});
    }
  }
  if (status.ok() && trainer.step() == 0 && !options.restore_from.empty() && !options.joins) {
    status = Restore(trainer, options.restore_from, rank, sink);
  }
  if (!status.ok()) return EmitFailure(status, trainer, rank, sink);
  StallDetector stalls;
  PassPhase(options.phase_fd, "ready");
  stalls.Restart();
  EmitKernelCounters(options.interface, "ready", ranks, sink);
  Saving saving(options, [] { return MonotonicClock().Now(); });
  // A rank that failed tells it before its peers can miss it, and waits for nobody.
  status = WithAdvice(Training(trainer, ranks, options, stalls, saving, sink).ToTheEnd());
  if (!status.ok()) sink.EmitFailure(rank, trainer.step(), status);
  EmitKernelCounters(options.interface, "trained", ranks, sink);
  EmitStall(stalls, rank, options, sink);
  const std::vector<LocalTelemetry>& left =
      options.membership == nullptr ? ranks : options.membership->ranks();
  // A group that is lost has told after its last outer step what is sure to have crossed.
  if (status.ok() || options.membership == nullptr) {
    for (const LocalTelemetry& r : left) EmitCrossings(r, /*checkpoint=*/0, sink);
  }
  if (!status.ok()) return status;
  PassPhase(options.phase_fd, "trained");
  if (options.eval_rows > 0) status = WithAdvice(EvaluateBoth(trainer, options, rank, sink));
  if (status.ok() && options.save_weights) status = options.save_weights(trainer);
  if (!status.ok()) return EmitFailure(status, trainer, rank, sink);
  EmitMemory(rank, options.gpu, sink);
  sink.Emit({{"event", "finished"}, {"rank", rank}});
  return sink.status();
}

}  // namespace longhaul
