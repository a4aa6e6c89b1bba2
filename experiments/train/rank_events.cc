#include "experiments/train/rank_events.h"

#include <fstream>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compressors/numbers/noise.h"
#include "experiments/record/count_events.h"
#include "experiments/train/clocked_steps.h"
#include "plugin/core/packet.h"
#include "pp_group/memory/memory_limit.h"

namespace longhaul {
namespace {

// The most memory that this process has had to itself, in bytes: its peak resident size without the
// pages of files (libraries, token files), which the kernel may drop and processes share. Where
// pages of files came after the peak, less than the most by those. nullopt: no /proc.
std::optional<int64_t> PeakPrivateBytes() {
  std::ifstream status("/proc/self/status");
  int64_t peak_kib = -1, file_kib = -1;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) peak_kib = std::stoll(line.substr(6));
    if (line.starts_with("RssFile:")) file_kib = std::stoll(line.substr(8));
  }
  if (peak_kib < 0 || file_kib < 0) return std::nullopt;
  return (peak_kib - file_kib) * 1024;
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

// Between groups, by group number, over all backends that joined them one after the other.
std::vector<CrossingCounters> OuterCounters(const LocalTelemetry& rank) {
  std::map<std::pair<int, bool>, CrossingCounters> sums;
  std::vector<LocalTelemetry::Outer> all = rank.earlier_outer;
  if (rank.outer) all.push_back({rank.outer, rank.outer_groups});
  for (const LocalTelemetry::Outer& outer : all) {
    for (CrossingCounters c : TotalsByPeer(outer.backend->group().counters())) {
      if (!outer.groups.empty()) c.peer = outer.groups[static_cast<size_t>(c.peer)];
      const auto [at, fresh] = sums.emplace(std::pair(c.peer, c.sent), c);
      if (fresh) continue;
      CrossingCounters& sum = at->second;
      sum.tensors += c.tensors;
      sum.elements += c.elements;
      sum.payload_bytes += c.payload_bytes;
      sum.message_bytes += c.message_bytes;
      sum.encode += c.encode;
      sum.decode += c.decode;
      sum.payload_hash = FoldSeed({sum.payload_hash, c.payload_hash});
    }
  }
  std::vector<CrossingCounters> counters;
  for (auto& [key, sum] : sums) counters.push_back(std::move(sum));
  return counters;
}

void EmitCrossing(CrossingKind kind, const CrossingCounters& c, const LocalTelemetry& rank,
                  int64_t checkpoint, EventSink& sink) {
  CrossingCount count{.checkpoint = checkpoint,
                      .life = rank.life,
                      .group_kind = kind,
                      .rank = rank.rank,
                      .peer = c.peer,
                      .sent = c.sent,
                      .stage = rank.looped && kind != CrossingKind::kBoundary ? rank.stage : 0,
                      .codec = c.codec,
                      .tensors = c.tensors,
                      .elements = c.elements,
                      .payload_bytes = c.payload_bytes,
                      .message_bytes = c.message_bytes,
                      .encode_s = Seconds(c.encode),
                      .decode_s = Seconds(c.decode),
                      .nmse_samples = c.nmse_samples,
                      .payload_hash = c.payload_hash};
  if (c.kind && rank.looped) {
    count.kind = *c.kind == TensorKind::kActivation ? kActivationCount : kGradientCount;
  }
  if (c.nmse_samples > 0) {
    count.nmse_mean = c.nmse_sum / static_cast<double>(c.nmse_samples);
    count.nmse_max = c.nmse_max;
  }
  sink.Emit(EventOf("crossing", count));
}

}  // namespace

CodecTime CodecTimeOf(const LocalTelemetry& rank) {
  CodecTime total;
  for (const CrossingCounters& c : rank.boundary->group().counters()) {
    total.encode += c.encode;
    total.decode += c.decode;
  }
  return total;
}

void EmitSteps(const std::vector<StepReport>& reports, const std::vector<LocalTelemetry>& ranks,
               const ClockedSteps* clocked, CodecTimes& times, EventSink& sink) {
  for (const StepReport& r : reports) {
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (ranks[i].group != r.group || ranks[i].stage != r.stage) continue;
      const CodecTime now = CodecTimeOf(ranks[i]);
      CodecTime& before = times[{ranks[i].rank, ranks[i].life}];
      nlohmann::json event = EventOf("step", RowOfStep(r, before, now));
      event["rank"] = ranks[i].rank;
      if (clocked != nullptr) {
        const SimulatedRow simulated = clocked->Of(r);
        event[kSimulatedSecond] = simulated.simulated_s;
        event["message_bytes"] = simulated.message_bytes;
      }
      sink.Emit(event);
      before = now;
    }
  }
}

void EmitErrors(int64_t step, const std::vector<LocalTelemetry>& ranks, WindowedErrors& errors,
                EventSink& sink) {
  for (const LocalTelemetry& r : ranks) {
    // Of several stages both kinds go the same way, and a window knows no kind: crossings do.
    if (r.looped) {
      (void)r.boundary->group().TakeNmse();
      continue;
    }
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

void EmitCrossings(const LocalTelemetry& rank, int64_t checkpoint, EventSink& sink) {
  const auto emit = [&](CrossingKind kind, const CrossingCounters& c) {
    EmitCrossing(kind, c, rank, checkpoint, sink);
  };
  const auto totals = rank.looped ? TotalsByPeerAndKind : TotalsByPeer;
  for (const CrossingCounters& c : totals(rank.boundary->group().counters())) {
    if (rank.lowest) emit(CrossingKind::kBoundary, c);
  }
  for (const CrossingCounters& c : OuterCounters(rank)) emit(CrossingKind::kOuter, c);
  if (rank.tied != nullptr) {
    for (CrossingCounters c : TotalsByPeer(rank.tied->group().counters())) {
      c.peer = rank.tied_peer;
      emit(CrossingKind::kTied, c);
    }
  }
  if (rank.experts == nullptr) return;
  for (CrossingCounters c :
       TotalsByPeer(rank.experts->group().counters())) {  // collectives, all of it
    c.tensors = c.collective_messages;
    c.message_bytes = c.collective_bytes;
    c.payload_bytes =
        c.collective_bytes - c.collective_messages * static_cast<int64_t>(kPacketHeaderBytes);
    emit(CrossingKind::kExperts, c);
  }
}

void EmitState(const LocalTelemetry& rank, int giver, ProcessGroupLonghaul& pair, EventSink& sink) {
  for (CrossingCounters c : TotalsByPeer(pair.group().counters())) {
    if (c.sent) continue;
    c.peer = giver;
    EmitCrossing(CrossingKind::kState, c, rank, /*checkpoint=*/0, sink);
  }
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

void EmitEvaluation(const Evaluation& e, EvalCodec codec, int64_t step, int rank, EventSink& sink) {
  EmitRow("evaluation", rank,
          EvaluationRow{.step = step,
                        .codec = codec,
                        .loss_nat = e.loss,
                        .standard_error_nat = e.block_se,
                        .tokens = e.tokens},
          sink);
}

void EmitClipping(const std::map<int, int64_t>& clipped, int64_t steps, EventSink& sink) {
  for (const auto& [rank, count] : clipped) {
    sink.Emit({{"event", "fact"},
               {"key", absl::StrCat("rank_", rank, "_clipped_steps")},
               {"value", absl::StrCat(count, " of ", steps)}});
  }
}

void EmitMemory(int rank, std::optional<int> gpu, EventSink& sink) {
  const auto fact = [&](const char* key, int64_t bytes) {
    sink.Emit({{"event", "fact"},
               {"key", absl::StrCat(key, "_of_rank_", rank)},
               {"value", absl::StrCat(bytes)}});
  };
  if (const std::optional<int64_t> peak = PeakPrivateBytes()) fact("peak_bytes", *peak);
  if (gpu) fact("peak_gpu_bytes", PeakGpuBytes(*gpu));
}

}  // namespace longhaul
