#include "experiments/run/lab_main.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <absl/strings/str_join.h>
#include <fmt/format.h>

#include "base/status_macros.h"
#include "experiments/record/count_events.h"
#include "experiments/record/row_json.h"
#include "experiments/run/endings.h"
#include "experiments/run/link_evidence.h"
#include "experiments/run/stall_tracker.h"
#include "experiments/run/worker_pool.h"
#include "experiments/train/event_stream.h"
#include "experiments/train/phase_gate.h"
#include "experiments/train/spec_files.h"
#include "netem/emulator.h"
#include "netem/lab/host_names.h"
#include "netem/machine/host_facts.h"
#include "netem/machine/tap_ceiling.h"
#include "netem/probes/probe.h"
#include "netem/topology/queue_limits.h"
#include "netem/topology/topology_file.h"
#include "plugin/core/clock.h"

namespace longhaul {
namespace {

int RankCount(const RunSpec& spec) { return static_cast<int>(spec.workers()); }

absl::StatusOr<EmulatorKind> ChooseEmulator(const RunSpec& spec, const Topology& topology) {
  std::optional<EmulatorKind> forced;
  if (spec.net.emulator == "netem") forced = EmulatorKind::kNetem;
  if (spec.net.emulator == "tap") forced = EmulatorKind::kTap;
  return ChooseEmulatorKind(forced, topology);
}

// Full or managed: the record has one column for them.
int64_t DroppedByQueues(const PathCounters& counters) {
  return counters.drops_queue + counters.drops_aqm;
}

void EmitLink(LinkPhase phase, const Topology& topology, const PathVerdict& v, EventSink& sink) {
  const PathSpec& path = *FindPath(topology, v.from, v.to);
  LinkRow row{.phase = phase,
              .src_node = v.from,
              .dst_node = v.to,
              .nominal_rtt_s = absl::ToDoubleSeconds(v.rtt.nominal),
              .rtt_min_s = absl::ToDoubleSeconds(v.rtt.min),
              .rtt_median_s = absl::ToDoubleSeconds(v.rtt.median),
              .rtt_p99_s = absl::ToDoubleSeconds(v.rtt.p99),
              .nominal_loss_prob = MeanLoss(path),
              .probes_sent = v.rtt.sent,
              .probes_received = v.rtt.received,
              .packets = v.counters.packets,
              .bytes = v.counters.bytes,
              .queue_drops = DroppedByQueues(v.counters),
              .loss_drops = v.counters.drops_loss,
              .ok = v.ok,
              .why = v.why};
  if (const auto rate = NominalRate(topology, path)) {
    row.nominal_rate_bit_per_s = static_cast<double>(rate->value);
  }
  if (v.rate) {
    row.nominal_goodput_bit_per_s = static_cast<double>(v.rate->nominal_goodput.value);
    row.goodput_bit_per_s = static_cast<double>(v.rate->goodput.value);
  }
  sink.Emit(EventOf("link", row));
}

// Aborted when links are out of bounds, with the figures of each.
absl::Status Verify(LinkPhase phase, const RunSpec& spec, const Emulator& emulator,
                    EventSink& sink) {
  VerifyOptions options;
  options.pairs = UsedPairs(spec);
  ASSIGN_OR_RETURN(std::vector<PathVerdict> verdicts, VerifyLinks(emulator, options));
  std::vector<std::string> bad;
  for (const PathVerdict& v : verdicts) {
    EmitLink(phase, emulator.topology(), v, sink);
    if (!v.ok) bad.push_back(fmt::format("link {} > {}: {}", v.from, v.to, v.why));
  }
  if (bad.empty()) return absl::OkStatus();
  return absl::AbortedError(fmt::format("{} training, outside its bounds: {}", ToString(phase),
                                        absl::StrJoin(bad, "; ")));
}

// What each used path carried between two phases, as the emulator counted it, and what reached each
// node, as its interface did.
class PathMeter {
 public:
  PathMeter(const RunSpec& spec, const Emulator& emulator, EventSink& sink)
      : pairs_(UsedPairs(spec)), emulator_(emulator), sink_(sink) {}

  void OnPhase(const std::string& phase) {
    const absl::Duration now = MonotonicClock().Now();
    std::map<std::pair<int, int>, PathCounters> counts;
    for (const PathSpec& path : emulator_.topology().paths) {
      absl::StatusOr<PathCounters> count = emulator_.counters(path.from, path.to);
      if (count.ok()) counts[{path.from, path.to}] = *count;
    }
    std::map<int, int64_t> received;
    for (int node = 0; node < static_cast<int>(emulator_.topology().nodes.size()); ++node) {
      absl::StatusOr<int64_t> bytes = InterfaceReceivedBytes(emulator_, node);
      if (bytes.ok()) received[node] = *bytes;
    }
    const std::optional<int64_t> checkpoint = CheckpointStep(phase);
    if (phase == "ready") {
      start_ = std::move(counts);
      received_ = std::move(received);
      begun_ = now;
    } else if (phase == "trained" || checkpoint) {
      EmitPaths(counts, now - begun_, checkpoint.value_or(0));
      EmitNodes(counts, received, checkpoint.value_or(0));
    }
  }

 private:
  using Counts = std::map<std::pair<int, int>, PathCounters>;

  void EmitPaths(const Counts& counts, absl::Duration lasted, int64_t checkpoint) {
    for (const auto& [from, to] : pairs_) {
      const auto now = counts.find({from, to});
      if (now == counts.end()) continue;
      const PathCounters& start = start_[{from, to}];
      PathCount count{.from = from,
                      .to = to,
                      .checkpoint = checkpoint,
                      .seconds = absl::ToDoubleSeconds(lasted),
                      .packets = now->second.packets - start.packets,
                      .bytes = now->second.bytes - start.bytes,
                      .drops_queue = DroppedByQueues(now->second) - DroppedByQueues(start),
                      .drops_loss = now->second.drops_loss - start.drops_loss};
      sink_.Emit(EventOf("path", count));
      if (checkpoint == 0) EmitQueueManagement(count, now->second, start);
    }
  }

  // What the AQM of a path did while the workers trained; nothing where it had nothing to do.
  void EmitQueueManagement(const PathCount& path, const PathCounters& end,
                           const PathCounters& start) {
    for (const auto& [name, sum] : {std::pair("aqm_drops", end.drops_aqm - start.drops_aqm),
                                    std::pair("ce_marks", end.ecn_marks - start.ecn_marks)}) {
      if (sum == 0) continue;
      EmitFact(sink_, fmt::format("path_{}_{}_{}", path.from, path.to, name),
               fmt::format("{}", sum));
    }
  }

  void EmitNodes(const Counts& counts, const std::map<int, int64_t>& received, int64_t checkpoint) {
    std::map<int, int64_t> delivered;
    for (const auto& [pair, count] : counts) {
      delivered[pair.second] += count.device_bytes - start_[pair].device_bytes;
    }
    for (const auto& [node, bytes] : received) {
      const auto before = received_.find(node);
      if (before == received_.end()) continue;
      sink_.Emit(EventOf("node", NodeCount{.node = node,
                                           .checkpoint = checkpoint,
                                           .received = bytes - before->second,
                                           .delivered = delivered[node]}));
    }
  }

  const std::vector<std::pair<int, int>> pairs_;
  const Emulator& emulator_;
  EventSink& sink_;
  Counts start_;
  std::map<int, int64_t> received_;  // by node
  absl::Duration begun_ = absl::ZeroDuration();
};

// What the kernel really gave the nodes, and how deep each used path's queue is.
absl::Status EmitHostFacts(const RunSpec& spec, const Emulator& emulator, EventSink& sink) {
  ASSIGN_OR_RETURN(HostFacts facts, ReadHostFacts(emulator));
  for (auto [name, text] : Describe(facts)) {
    std::replace(name.begin(), name.end(), ' ', '_');
    EmitFact(sink, name == "emulator" ? name : "node_" + name, text);
  }
  for (const auto& [from, to] : UsedPairs(spec)) {
    const PathSpec& path = *FindPath(emulator.topology(), from, to);
    if (!path.rate) continue;  // no queue of its own
    EmitFact(sink, fmt::format("path_{}_{}_queue_packets", from, to),
             fmt::format("{}", PathQueuePackets(emulator.topology(), path)));
  }
  return absl::OkStatus();
}

// Frames that the nodes' kernels lost before the emulator read them; -1: unknown.
int64_t UnreadOfAll(const Emulator& emulator) {
  int64_t sum = 0;
  for (size_t i = 0; i < emulator.topology().nodes.size(); ++i) {
    const absl::StatusOr<int64_t> drops = UnreadDrops(emulator, static_cast<int>(i));
    if (!drops.ok()) return -1;
    sum += *drops;
  }
  return sum;
}

absl::StatusOr<std::unique_ptr<Emulator>> BuildLinks(const RunSpec& spec) {
  ASSIGN_OR_RETURN(Topology topology, MeshNamed(spec.net.profile, RankCount(spec)));
  RETURN_IF_ERROR(CheckFiles(spec, {Names::kLinks}));
  ASSIGN_OR_RETURN(const EmulatorKind kind, ChooseEmulator(spec, topology));
  const std::optional<TapCeiling> ceiling = LoadTapCeiling();
  if (kind == EmulatorKind::kTap && ceiling) {
    RETURN_IF_ERROR(CheckRates(topology, *ceiling));
  }
  const std::string& control = spec.net.congestion_control;
  return BuildEmulator(kind, topology,
                       {.congestion_control = control == "system" ? "" : control,
                        .slow_start_after_idle = spec.net.slow_start_after_idle,
                        .seed = static_cast<uint64_t>(spec.seed)});
}

absl::Status Run(const RunSpec& spec, const std::string& checkpoint_directory, int events_fd,
                 FdEventSink& sink) {
  ASSIGN_OR_RETURN(std::unique_ptr<Emulator> emulator, BuildLinks(spec));
  RETURN_IF_ERROR(NameNodes(emulator->topology()));
  EmitFact(sink, "emulator_scheduling", std::string(emulator->scheduling()));
  RETURN_IF_ERROR(EmitHostFacts(spec, *emulator, sink));
  const absl::Status before = Verify(LinkPhase::kBefore, spec, *emulator, sink);
  const bool train_anyway = spec.net.out_of_bounds == "flag" && absl::IsAborted(before);
  if (!before.ok() && !train_anyway) return before;

  const Lateness untrained = emulator->lateness();
  const int64_t unread = UnreadOfAll(*emulator);
  PathMeter meter(spec, *emulator, sink);
  WorkerPool workers(spec, *emulator, sink, events_fd,
                     [&meter](const std::string& phase) { meter.OnPhase(phase); });
  RETURN_IF_ERROR(workers.StartAll(checkpoint_directory));
  const absl::Status trained = workers.WaitForAll(GraceToEnd(spec));
  // An emulator whose thread stands still would be waited for without end.
  if (absl::IsDeadlineExceeded(trained)) _exit(1);
  if (!trained.ok()) return trained;
  const Lateness late = emulator->lateness();
  const absl::Status punctual = JudgeLateness(untrained, late, sink);
  const absl::Status read =
      JudgeUnread(unread, UnreadOfAll(*emulator), late.frames - untrained.frames, sink);
  const absl::Status after = Verify(LinkPhase::kAfter, spec, *emulator, sink);
  return NoEvidence({before, punctual, read, after});
}

}  // namespace

int LabMain(const RunSpec& spec, const std::string& checkpoint_directory, int events_fd,
            int command_stat_fd) {
  // Before any thread exists, so that all inherit it: WorkerPool waits for the signal.
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child, nullptr);
  const CommandWatch command(command_stat_fd, absl::Seconds(spec.net.peer_deadline_s));
  FdEventSink sink(events_fd);
  const absl::Status status = Run(spec, checkpoint_directory, events_fd, sink);
  if (!status.ok()) sink.EmitFailure(-1, 0, status);
  return status.ok() ? 0 : 1;
}

}  // namespace longhaul
