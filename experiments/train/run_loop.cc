#include "experiments/train/run_loop.h"

#include <cmath>
#include <fstream>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "experiments/record/row_json.h"
#include "experiments/train/error_windows.h"
#include "experiments/train/phase_gate.h"
#include "experiments/train/stillness.h"

namespace longhaul {
namespace {

using nlohmann::json;

double Seconds(absl::Duration d) { return absl::ToDoubleSeconds(d); }

// Frames cross as int64 in the record and as text here: 2^53 is not enough for a hash.
std::string Hex(uint64_t hash) { return absl::StrFormat("%016x", hash); }

struct CodecTime {
  absl::Duration encode, decode;
};

CodecTime CodecTimeOf(const LocalTelemetry& rank) {
  CodecTime total;
  for (const CrossingCounters& c : rank.boundary->group().counters()) {
    total.encode += c.encode;
    total.decode += c.decode;
  }
  return total;
}

StepRow RowOfStep(const StepReport& r, const CodecTime& before, const CodecTime& now) {
  return {.step = r.step,
          .group_index = r.group,
          .stage = r.stage,
          .loss_nat = r.loss,
          .tokens = r.tokens,
          .wall_s = Seconds(r.wall),
          .forward_s = Seconds(r.forward),
          .backward_s = Seconds(r.backward),
          .optimizer_s = Seconds(r.optimizer),
          .wait_s = Seconds(r.wait),
          .outer_s = Seconds(r.outer),
          .encode_s = Seconds(now.encode - before.encode),
          .decode_s = Seconds(now.decode - before.decode),
          .outer_synced = r.outer_synced,
          .outer_sent_bytes = r.outer_bytes_sent,
          .parameter_hash = r.parameter_hash};
}

// A row as an event of one rank.
template <typename Row>
void EmitRow(const char* kind, int rank, const Row& row, EventSink& sink) {
  json event = EventOf(kind, row);
  event["rank"] = rank;
  sink.Emit(event);
}

void EmitSteps(const std::vector<StepReport>& reports, const std::vector<LocalTelemetry>& ranks,
               std::vector<CodecTime>& before, EventSink& sink) {
  for (const StepReport& r : reports) {
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (ranks[i].group != r.group || ranks[i].stage != r.stage) continue;
      const CodecTime now = CodecTimeOf(ranks[i]);
      EmitRow("step", ranks[i].rank, RowOfStep(r, before[i], now), sink);
      before[i] = now;
    }
  }
}

// What the boundaries' senders measured in this step, and windows that end with it.
void EmitErrors(int64_t step, const std::vector<LocalTelemetry>& ranks, WindowedErrors& errors,
                EventSink& sink) {
  for (const LocalTelemetry& r : ranks) {
    for (const NmseSample& sample : r.boundary->group().TakeNmse()) {
      errors.Add(step, {r.rank, sample.peer}, sample.nmse);
    }
  }
  for (const ErrorSummary& summary : errors.Close(step)) {
    // The peer is a rank of the pipeline's group, S in a row.
    const int64_t stages = ranks.front().boundary->getSize();
    const int64_t src = summary.crossing.rank;
    EmitRow("error", summary.crossing.rank,
            CrossingErrorRow{.src_rank = src,
                             .dst_rank = src / stages * stages + summary.crossing.peer,
                             .percent = summary.window.percent,
                             .first_step = summary.window.first,
                             .last_step = summary.window.last,
                             .samples = summary.samples,
                             .nmse_mean = summary.mean,
                             .nmse_p95 = summary.p95},
            sink);
  }
}

// `checkpoint`: the step after which one was written; 0: of the whole training.
void EmitCrossings(const LocalTelemetry& rank, int64_t checkpoint, EventSink& sink) {
  const auto emit = [&](const char* group, const CrossingCounters& c) {
    sink.Emit({{"event", "crossing"},
               {"checkpoint", checkpoint},
               {"group_kind", group},
               {"rank", rank.rank},
               {"group", rank.group},
               {"stage", rank.stage},
               {"peer", c.peer},
               {"sent", c.sent},
               {"codec", c.codec},
               {"tensors", c.tensors},
               {"elements", c.elements},
               {"payload_bytes", c.payload_bytes},
               {"message_bytes", c.message_bytes},
               {"encode_s", Seconds(c.encode)},
               {"decode_s", Seconds(c.decode)},
               {"nmse_samples", c.nmse_samples},
               {"nmse_mean", c.nmse_samples ? c.nmse_sum / c.nmse_samples : 0.0},
               {"nmse_max", c.nmse_max},
               {"payload_hash", Hex(c.payload_hash)}});
  };
  for (const CrossingCounters& c : rank.boundary->group().counters()) emit("boundary", c);
  if (!rank.outer) return;
  for (const CrossingCounters& c : rank.outer->group().counters()) emit("outer", c);
}

void EmitKernelCounters(const std::string& interface, const char* phase,
                        const std::vector<LocalTelemetry>& ranks, EventSink& sink) {
  if (interface.empty()) return;
  const std::string folder = "/sys/class/net/" + interface + "/statistics/";
  int64_t tx = 0, rx = 0;
  std::ifstream(folder + "tx_bytes") >> tx;
  std::ifstream(folder + "rx_bytes") >> rx;
  sink.Emit({{"event", "kernel"},
             {"rank", ranks.front().rank},
             {"phase", phase},
             {"tx_bytes", tx},
             {"rx_bytes", rx}});
}

void EmitStillness(StillnessMeter& stillness, int rank, const RunLoopOptions& options,
                   EventSink& sink) {
  if (options.phase_fd < 0) return;  // no links whose times would mean something
  sink.Emit({{"event", "stillness"}, {"rank", rank}, {"longest_s", Seconds(stillness.Longest())}});
}

void EmitEvaluation(const Evaluation& e, EvalCodec codec, int64_t step, int rank, EventSink& sink) {
  EmitRow("evaluation", rank,
          EvaluationRow{.step = step,
                        .codec = codec,
                        .loss_nat = e.loss,
                        .standard_error_nat = e.block_se,
                        .tokens = e.tokens},
          sink);
}

// With the boundary codec off and on. A codec that sends the source's own bytes is off and on at
// once: one pass says both.
absl::Status EvaluateBoth(Trainer& trainer, const RunLoopOptions& options, int rank,
                          EventSink& sink) {
  const auto off = trainer.Evaluate(BoundaryCodec::kOff, options.eval_rows);
  if (!off.ok()) return off.status();
  if (*off) EmitEvaluation(**off, EvalCodec::kOff, trainer.step(), rank, sink);
  const auto on =
      options.forward_is_identity ? off : trainer.Evaluate(BoundaryCodec::kOn, options.eval_rows);
  if (!on.ok()) return on.status();
  if (*on) EmitEvaluation(**on, EvalCodec::kOn, trainer.step(), rank, sink);
  return absl::OkStatus();
}

bool Diverged(const std::vector<StepReport>& reports) {
  for (const StepReport& r : reports) {
    if (r.loss && !std::isfinite(*r.loss)) return true;
  }
  return false;
}

// A checkpoint, and what had been counted by then, so that a resumed run can count on from there.
absl::Status SaveAndCount(Trainer& trainer, const std::vector<LocalTelemetry>& ranks,
                          const RunLoopOptions& options, StillnessMeter& stillness,
                          FdEventSink& sink) {
  if (absl::Status s = trainer.SaveCheckpoint(options.checkpoint_directory); !s.ok()) return s;
  for (const LocalTelemetry& r : ranks) EmitCrossings(r, trainer.step(), sink);
  EmitStillness(stillness, ranks.front().rank, options, sink);
  PassPhase(options.phase_fd, CheckpointPhase(trainer.step()));
  for (const LocalTelemetry& r : ranks) {
    sink.Emit({{"event", "checkpoint"}, {"rank", r.rank}, {"step", trainer.step()}});
  }
  return sink.status();
}

// In how many of this process's steps a clip group of the rank was scaled down.
void EmitClipping(const std::vector<LocalTelemetry>& ranks, const std::vector<int64_t>& clipped,
                  int64_t steps, EventSink& sink) {
  for (size_t i = 0; i < ranks.size(); ++i) {
    sink.Emit({{"event", "fact"},
               {"key", absl::StrCat("rank_", ranks[i].rank, "_clipped_steps")},
               {"value", absl::StrCat(clipped[i], " of ", steps)}});
  }
}

absl::Status Train(Trainer& trainer, const std::vector<LocalTelemetry>& ranks,
                   const RunLoopOptions& options, StillnessMeter& stillness, FdEventSink& sink) {
  std::vector<CodecTime> codec_time;
  for (const LocalTelemetry& r : ranks) codec_time.push_back(CodecTimeOf(r));
  std::vector<int64_t> clipped(ranks.size(), 0);
  const int64_t begun = trainer.step();
  WindowedErrors errors(options.steps);
  while (trainer.step() < options.steps) {
    if (options.capture) options.capture->BeginStep(trainer.step() + 1);
    absl::StatusOr<std::vector<StepReport>> reports = trainer.Step();
    // A lossy boundary codec refuses NaN and Inf before the loss can show them.
    if (absl::IsOutOfRange(reports.status())) {
      return absl::OutOfRangeError(absl::StrCat("diverged in step ", trainer.step() + 1, ": ",
                                                std::string(reports.status().message())));
    }
    if (!reports.ok()) return reports.status();
    EmitSteps(*reports, ranks, codec_time, sink);
    EmitErrors(trainer.step(), ranks, errors, sink);
    if (options.capture) {
      if (absl::Status s = options.capture->EndStep(); !s.ok()) return s;
    }
    for (const StepReport& r : *reports) {
      for (size_t i = 0; i < ranks.size(); ++i) {
        clipped[i] +=
            ranks[i].group == r.group && ranks[i].stage == r.stage && r.clipped_groups > 0;
      }
    }
    if (!sink.status().ok()) return sink.status();
    if (Diverged(*reports)) {
      return absl::OutOfRangeError(
          absl::StrCat("diverged: the loss of step ", trainer.step(), " is not a number"));
    }
    if (trainer.step() < options.steps && options.stop_asked && options.stop_asked()) {
      if (absl::Status s = SaveAndCount(trainer, ranks, options, stillness, sink); !s.ok())
        return s;
      return absl::CancelledError(
          absl::StrCat(kAskedToStop, trainer.step(), ", with a checkpoint"));
    }
    const bool due = options.checkpoint_every > 0 && trainer.step() % options.checkpoint_every == 0;
    if (due && trainer.step() < options.steps) {
      if (absl::Status s = SaveAndCount(trainer, ranks, options, stillness, sink); !s.ok())
        return s;
    }
  }
  if (options.trains) EmitClipping(ranks, clipped, trainer.step() - begun, sink);
  return trainer.FinishSends();
}

absl::Status Told(const absl::Status& failure, const Trainer& trainer, int rank,
                  FdEventSink& sink) {
  sink.EmitFailure(rank, trainer.step(), failure);
  return failure;
}

}  // namespace

absl::Status RunLoop(Trainer& trainer, const std::vector<LocalTelemetry>& ranks,
                     const RunLoopOptions& options, FdEventSink& sink) {
  const int rank = ranks.front().rank;
  absl::Status status;
  if (!options.checkpoint_directory.empty()) {
    status = trainer.LoadCheckpoint(options.checkpoint_directory);
    if (absl::IsNotFound(status)) status = absl::OkStatus();  // nothing to resume from
    if (status.ok() && trainer.step() > 0) {
      sink.Emit({{"event", "fact"}, {"key", "resumed_from_step"}, {"value", trainer.step()}});
    }
  }
  if (!status.ok()) return Told(status, trainer, rank, sink);
  StillnessMeter stillness;
  PassPhase(options.phase_fd, "ready");
  stillness.Restart();
  EmitKernelCounters(options.interface, "ready", ranks, sink);
  // A rank that failed tells it before its peers can miss it, and waits for nobody.
  status = Train(trainer, ranks, options, stillness, sink);
  if (!status.ok()) sink.EmitFailure(rank, trainer.step(), status);
  EmitKernelCounters(options.interface, "trained", ranks, sink);
  EmitStillness(stillness, rank, options, sink);
  for (const LocalTelemetry& r : ranks) EmitCrossings(r, /*checkpoint=*/0, sink);
  if (!status.ok()) return status;
  PassPhase(options.phase_fd, "trained");
  if (options.eval_rows > 0) status = EvaluateBoth(trainer, options, rank, sink);
  if (!status.ok()) return Told(status, trainer, rank, sink);
  sink.Emit({{"event", "finished"}, {"rank", rank}});
  return sink.status();
}

}  // namespace longhaul
