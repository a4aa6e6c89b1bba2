#include "experiments/run/lab_main.h"

#include <signal.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "experiments/run/worker_pool.h"
#include "experiments/train/event_stream.h"
#include "netem/emulator.h"
#include "netem/probe.h"

namespace longhaul {
namespace {

int RankCount(const RunSpec& spec) {
  return static_cast<int>(spec.schedule.stages * spec.outer.groups);
}

absl::StatusOr<EmulatorKind> ChooseEmulator(const RunSpec& spec) {
  if (spec.net.emulator == "netem") return EmulatorKind::kNetem;
  if (spec.net.emulator == "tap") return EmulatorKind::kTap;
  return ProbeEmulatorKind();
}

// The ordered pairs that carry training traffic: neighbours in a pipeline, peers of one stage.
std::vector<std::pair<int, int>> UsedPairs(const RunSpec& spec) {
  const int stages = static_cast<int>(spec.schedule.stages);
  const int groups = static_cast<int>(spec.outer.groups);
  std::vector<std::pair<int, int>> pairs;
  const auto both = [&](int a, int b) {
    pairs.emplace_back(a, b);
    pairs.emplace_back(b, a);
  };
  for (int g = 0; g < groups; ++g) {
    for (int s = 0; s + 1 < stages; ++s) both(g * stages + s, g * stages + s + 1);
  }
  for (int s = 0; s < stages; ++s) {
    for (int a = 0; a < groups; ++a) {
      for (int b = a + 1; b < groups; ++b) both(a * stages + s, b * stages + s);
    }
  }
  return pairs;
}

void EmitLink(const char* phase, const PathVerdict& v, EventSink& sink) {
  nlohmann::json event = {{"event", "link"},
                          {"phase", phase},
                          {"from", v.from},
                          {"to", v.to},
                          {"rtt_nominal_s", absl::ToDoubleSeconds(v.rtt.nominal)},
                          {"rtt_min_s", absl::ToDoubleSeconds(v.rtt.min)},
                          {"rtt_median_s", absl::ToDoubleSeconds(v.rtt.median)},
                          {"rtt_p99_s", absl::ToDoubleSeconds(v.rtt.p99)},
                          {"pings_sent", v.rtt.sent},
                          {"pings_received", v.rtt.received},
                          {"packets", v.counters.packets},
                          {"bytes", v.counters.bytes},
                          {"drops_queue", v.counters.drops_queue},
                          {"drops_loss", v.counters.drops_loss},
                          {"ok", v.ok},
                          {"why", v.why}};
  if (v.rate) {
    event["goodput_nominal_bit_per_s"] = v.rate->nominal_goodput.value;
    event["goodput_bit_per_s"] = v.rate->goodput.value;
    event["congestion_control"] = v.rate->congestion_control;
  }
  sink.Emit(event);
}

// Aborted when a link is out of bounds.
absl::Status Verify(const char* phase, const RunSpec& spec, const Emulator& emulator,
                    EventSink& sink) {
  VerifyOptions options;
  options.pairs = UsedPairs(spec);
  absl::StatusOr<std::vector<PathVerdict>> verdicts = VerifyLinks(emulator, options);
  if (!verdicts.ok()) return verdicts.status();
  std::string bad;
  for (const PathVerdict& v : *verdicts) {
    EmitLink(phase, v, sink);
    if (!v.ok && bad.empty()) bad = fmt::format("link {} > {}: {}", v.from, v.to, v.why);
  }
  if (bad.empty()) return absl::OkStatus();
  return absl::AbortedError(fmt::format("{} training, outside its bounds: {}", phase, bad));
}

// What each used path carried between two phases, as the emulator counted it.
class PathMeter {
 public:
  PathMeter(const RunSpec& spec, const Emulator& emulator, EventSink& sink)
      : pairs_(UsedPairs(spec)), emulator_(emulator), sink_(sink) {}

  void OnPhase(const std::string& phase) {
    for (const auto& [from, to] : pairs_) {
      absl::StatusOr<PathCounters> now = emulator_.counters(from, to);
      if (!now.ok()) continue;
      if (phase == "ready") start_[{from, to}] = *now;
      if (phase != "trained") continue;
      const PathCounters& start = start_[{from, to}];
      sink_.Emit({{"event", "path"},
                  {"from", from},
                  {"to", to},
                  {"packets", now->packets - start.packets},
                  {"bytes", now->bytes - start.bytes},
                  {"drops_queue", now->drops_queue - start.drops_queue},
                  {"drops_loss", now->drops_loss - start.drops_loss}});
    }
  }

 private:
  const std::vector<std::pair<int, int>> pairs_;
  const Emulator& emulator_;
  EventSink& sink_;
  std::map<std::pair<int, int>, PathCounters> start_;
};

absl::Status Run(const RunSpec& spec, const std::string& checkpoint_directory, int events_fd,
                 FdEventSink& sink) {
  absl::StatusOr<EmulatorKind> kind = ChooseEmulator(spec);
  if (!kind.ok()) return kind.status();
  absl::StatusOr<Topology> topology = UniformTopology(spec.net.profile, RankCount(spec));
  if (!topology.ok()) return topology.status();
  absl::StatusOr<std::unique_ptr<Emulator>> emulator =
      BuildEmulator(*kind, *topology,
                    {.congestion_control =
                         spec.net.congestion_control == "system" ? "" : spec.net.congestion_control,
                     .seed = static_cast<uint64_t>(spec.seed)});
  if (!emulator.ok()) return emulator.status();
  const auto fact = [&](const char* key, const std::string& value) {
    sink.Emit({{"event", "fact"}, {"key", key}, {"value", value}});
  };
  fact("emulator", std::string(ToString(*kind)));
  fact("emulator_scheduling", std::string((*emulator)->scheduling()));
  const absl::Status before = Verify("before", spec, **emulator, sink);
  const bool train_anyway = spec.net.out_of_bounds == "flag" && absl::IsAborted(before);
  if (!before.ok() && !train_anyway) return before;

  PathMeter meter(spec, **emulator, sink);
  WorkerPool workers(spec, **emulator, sink, events_fd,
                     [&meter](const std::string& phase) { meter.OnPhase(phase); });
  if (absl::Status s = workers.StartAll(checkpoint_directory); !s.ok()) return s;
  const absl::Duration grace = absl::Seconds(spec.net.peer_deadline_s) + absl::Seconds(5);
  if (absl::Status s = workers.WaitForAll(grace); !s.ok()) return s;
  absl::Status after = Verify("after", spec, **emulator, sink);
  if (before.ok() && after.ok()) return after;
  if (!before.ok()) after = before;
  return absl::Status(after.code(),
                      fmt::format("trained to the end, but its times are no evidence: {}",
                                  std::string(after.message())));
}

}  // namespace

int LabMain(const RunSpec& spec, const std::string& checkpoint_directory, int events_fd) {
  // Before any thread exists, so that all inherit it: WorkerPool waits for the signal.
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child, nullptr);
  FdEventSink sink(events_fd);
  const absl::Status status = Run(spec, checkpoint_directory, events_fd, sink);
  if (!status.ok()) sink.EmitFailure(-1, 0, status);
  return status.ok() ? 0 : 1;
}

}  // namespace longhaul
