#include "experiments/lab_main.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>

#include <fmt/format.h>

#include "experiments/event_stream.h"
#include "netem/emulator.h"
#include "netem/lab.h"
#include "netem/probe.h"

namespace longhaul {
namespace {

constexpr int kMasterPort = 29500;
constexpr int kEventsFdInWorker = 3;

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
  return absl::FailedPreconditionError(
      fmt::format("{} training, outside its bounds: {}", phase, bad));
}

absl::StatusOr<int> SpecFile(const RunSpec& spec) {
  const std::string text = ToToml(spec);
  const int fd = memfd_create("longhaul-spec", 0);
  if (fd < 0 || write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return absl::InternalError(fmt::format("hand the spec to the workers: {}", strerror(errno)));
  }
  return fd;
}

absl::StatusOr<pid_t> StartWorker(const RunSpec& spec, const Emulator& emulator, int rank,
                                  const std::string& checkpoint_directory, int events_fd) {
  absl::StatusOr<int> spec_fd = SpecFile(spec);
  if (!spec_fd.ok()) return spec_fd.status();
  NodeCommand command;
  command.argv = {"/proc/self/exe",
                  "worker",
                  "/proc/self/fd/0",
                  "--events-fd",
                  std::to_string(kEventsFdInWorker),
                  "--interface",
                  "net0"};
  if (!checkpoint_directory.empty()) {
    command.argv.insert(command.argv.end(), {"--checkpoints", checkpoint_directory});
  }
  command.environment = {fmt::format("RANK={}", rank),
                         fmt::format("WORLD_SIZE={}", RankCount(spec)),
                         fmt::format("MASTER_ADDR={}", NodeAddress(0)),
                         fmt::format("MASTER_PORT={}", kMasterPort),
                         fmt::format("OMP_NUM_THREADS={}", spec.limits.threads),
                         "PATH=/usr/bin:/bin",
                         "HOME=/"};
  command.inherit_fds = {{0, *spec_fd}, {1, 2}, {2, 2}, {kEventsFdInWorker, events_fd}};
  absl::StatusOr<pid_t> pid = SpawnInNode(emulator, rank, command);
  close(*spec_fd);
  return pid;
}

// Waits for every worker. After the first that fails, the others get `grace` to notice and end by
// themselves; then they are killed. SIGCHLD must be blocked in every thread.
absl::Status WaitForWorkers(std::map<pid_t, int> running, absl::Duration grace, FdEventSink& sink) {
  absl::Status status;
  absl::Time kill_at = absl::InfiniteFuture();
  while (!running.empty()) {
    int wait_status = 0;
    const pid_t pid = waitpid(-1, &wait_status, WNOHANG);
    if (pid > 0) {
      const auto it = running.find(pid);
      if (it == running.end()) continue;  // an orphan that init inherits
      const int rank = it->second;
      running.erase(it);
      if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) continue;
      const std::string how =
          WIFSIGNALED(wait_status)
              ? fmt::format("the worker was killed by signal {} ({})", WTERMSIG(wait_status),
                            strsignal(WTERMSIG(wait_status)))
              : fmt::format("the worker ended with status {}", WEXITSTATUS(wait_status));
      sink.Emit({{"event", "exited"},
                 {"rank", rank},
                 {"message", how},
                 {"by_signal", WIFSIGNALED(wait_status) != 0}});
      if (status.ok()) {
        status = absl::UnavailableError(fmt::format("rank {}: {}", rank, how));
        kill_at = absl::Now() + grace;
      }
      continue;
    }
    const absl::Duration left = kill_at - absl::Now();
    if (left <= absl::ZeroDuration()) {
      for (const auto& [worker, rank] : running) kill(worker, SIGKILL);
      kill_at = absl::InfiniteFuture();
      continue;
    }
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    const timespec limit = absl::ToTimespec(std::min(left, absl::Seconds(3600)));
    sigtimedwait(&child, nullptr, &limit);
  }
  return status;
}

absl::Status Run(const RunSpec& spec, const std::string& checkpoint_directory, int events_fd,
                 FdEventSink& sink) {
  absl::StatusOr<EmulatorKind> kind = ChooseEmulator(spec);
  if (!kind.ok()) return kind.status();
  absl::StatusOr<Topology> topology = UniformTopology(spec.net.profile, RankCount(spec));
  if (!topology.ok()) return topology.status();
  absl::StatusOr<std::unique_ptr<Emulator>> emulator = BuildEmulator(*kind, *topology);
  if (!emulator.ok()) return emulator.status();
  const auto fact = [&](const char* key, const std::string& value) {
    sink.Emit({{"event", "fact"}, {"key", key}, {"value", value}});
  };
  fact("emulator", std::string(ToString(*kind)));
  fact("emulator_scheduling", std::string((*emulator)->scheduling()));
  if (absl::Status s = Verify("before", spec, **emulator, sink); !s.ok()) return s;

  std::map<pid_t, int> workers;
  for (int rank = 0; rank < RankCount(spec); ++rank) {
    absl::StatusOr<pid_t> pid =
        StartWorker(spec, **emulator, rank, checkpoint_directory, events_fd);
    if (!pid.ok()) return pid.status();
    workers[*pid] = rank;
  }
  const absl::Duration grace = absl::Seconds(spec.net.peer_deadline_s) + absl::Seconds(5);
  if (absl::Status s = WaitForWorkers(std::move(workers), grace, sink); !s.ok()) return s;
  return Verify("after", spec, **emulator, sink);
}

}  // namespace

int LabMain(const RunSpec& spec, const std::string& checkpoint_directory, int events_fd) {
  // Before any thread exists, so that all inherit it: WaitForWorkers waits for the signal.
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
