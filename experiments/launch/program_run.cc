#include "experiments/launch/program_run.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/status_macros.h"
#include "experiments/launch/program_verdict.h"
#include "experiments/launch/rank_output.h"
#include "experiments/record/row_json.h"
#include "experiments/train/event_stream.h"
#include "experiments/train/spec_files.h"
#include "netem/kernel/posix.h"
#include "netem/lab/lab_mounts.h"

namespace longhaul {
namespace {

// In the lab's own /run, so that nothing of it is left.
constexpr char kLogFolder[] = "/run/longhaul-told";
constexpr absl::Duration kGrace = absl::Seconds(5);

std::string LogFile(size_t rank) { return fmt::format("{}/rank-{}.jsonl", kLogFolder, rank); }

// A port of the loopback interface that nobody has now.
absl::StatusOr<int> FreePort() {
  const Fd probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (!probe.ok() || bind(probe.get(), any, size) != 0 ||
      getsockname(probe.get(), any, &size) != 0) {
    return ErrnoStatus("find a free port for MASTER_PORT", errno);
  }
  return ntohs(address.sin_port);
}

// As torchrun tells the processes of one node; and the arm.
std::map<std::string, std::string> EnvironmentOf(const RunSpec& spec, size_t rank, int port) {
  const std::string number = fmt::format("{}", rank), ranks = fmt::format("{}", spec.workers());
  std::map<std::string, std::string> environment = {
      {"RANK", number},
      {"WORLD_SIZE", ranks},
      {"LOCAL_RANK", number},
      {"LOCAL_WORLD_SIZE", ranks},
      {"GROUP_RANK", "0"},
      {"GROUP_WORLD_SIZE", "1"},
      {"NODE_RANK", "0"},
      {"ROLE_RANK", number},
      {"ROLE_WORLD_SIZE", ranks},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", fmt::format("{}", port)},
      {"GLOO_SOCKET_IFNAME", "lo"},
      {"TP_SOCKET_IFNAME", "lo"},
      {"OMP_NUM_THREADS", fmt::format("{}", spec.limits.threads)},
      {"LONGHAUL_LOG", LogFile(rank)},
      {"LONGHAUL_SEED", fmt::format("{}", spec.seed)},
      {"LONGHAUL_TOKENS", fmt::format("{}", spec.train.tokens.value_or(0))},
      {"LONGHAUL_STAGES", fmt::format("{}", spec.schedule.stages)},
      {"LONGHAUL_GROUPS", fmt::format("{}", spec.outer.groups)},
      {"LONGHAUL_FORWARD", spec.boundary.forward},
      {"LONGHAUL_BACKWARD", spec.boundary.backward},
      {"LONGHAUL_OUTER_CODEC", spec.outer.codec}};
  for (const auto& [name, value] : spec.program->environment) environment[name] = value;
  return environment;
}

[[noreturn]] void RunRank(const RunSpec& spec, size_t rank, int port, const RankOutput& output,
                          pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(126);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const Fd empty(open("/dev/null", O_RDONLY | O_CLOEXEC));
  bool ready = dup2(empty.get(), STDIN_FILENO) == STDIN_FILENO && output.TakeIn(rank).ok();
  for (const auto& [name, value] : EnvironmentOf(spec, rank, port)) {
    setenv(name.c_str(), value.c_str(), 1);
  }
  ready = ready && chdir(FolderOfProgram(spec).c_str()) == 0;
  std::vector<std::string> words = spec.program->command;
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  if (ready) execvp(argv[0], argv.data());
  fmt::print(stderr, "{}: {}\n", argv[0], strerror(errno));
  fflush(stderr);
  _exit(127);
}

// The folder that ranks tell into, and the host's /run, which the lab's own hides.
absl::Status ReadyPlace() {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/run/host", error)) {
    (void)ShowHostRun("/run/" + entry.path().filename().string());
  }
  if (mkdir(kLogFolder, 0700) != 0 ||
      mount("tmpfs", kLogFolder, "tmpfs", MS_NOSUID | MS_NODEV, "mode=700,size=1g") != 0) {
    return ErrnoStatus(fmt::format("make {} for what the program tells", kLogFolder), errno);
  }
  return absl::OkStatus();
}

// The last lines of each rank, by stream.
struct LastLines {
  std::vector<std::string> out, error;
  explicit LastLines(size_t ranks) : out(ranks), error(ranks) {}
  void Take(size_t rank, bool is_error, const std::string& line) {
    if (line.find_first_not_of(" \t\r") == line.npos) return;
    (is_error ? error : out)[rank] = line.substr(0, 500);
  }
  std::vector<std::string> Taken() const {
    std::vector<std::string> lines = error;
    for (size_t rank = 0; rank < lines.size(); ++rank) {
      if (lines[rank].empty()) lines[rank] = out[rank];
    }
    return lines;
  }
};

absl::StatusOr<ProgramRun> RunRanks(const RunSpec& spec, const std::string& outside) {
  RETURN_IF_ERROR(ReadyPlace());
  const auto ranks = static_cast<size_t>(spec.workers());
  ASSIGN_OR_RETURN(auto output, RankOutput::Make(ranks));
  ASSIGN_OR_RETURN(const int port, FreePort());
  const sigset_t signals = SignalsOfRun();
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  const absl::Time began = MonotonicNow();
  const pid_t parent = getpid();
  std::vector<StartedProgram> started;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) RunRank(spec, rank, port, output, parent);
    if (child < 0) return ErrnoStatus("start a rank: fork", errno);
    started.push_back({child, fmt::format("rank {}", rank)});
  }
  LastLines lines(ranks);
  output.Start([&lines](size_t rank, bool error, const std::string& line) {
    lines.Take(rank, error, line);
  });
  EndingRules rules{.grace = kGrace, .timeout = absl::Seconds(spec.program->timeout_s)};
  rules.kill = [](pid_t pid) { ::kill(pid, SIGKILL); };
  std::vector<ProgramEnd> ends;
  const int status = WaitForPrograms(started, rules, &ends);
  // What ranks have left behind holds their output open. In the lab's namespace this is all there is
  // but its first process and this one.
  if (PidNamespace() != outside) ::kill(-1, SIGKILL);
  output.Finish();
  ProgramRun run{EndsOfRanks(started, ends, status, began), {}, lines.Taken()};
  for (size_t rank = 0; rank < ranks; ++rank) {
    ASSIGN_OR_RETURN(auto log, ReadProgramLog(LogFile(rank), static_cast<int64_t>(rank),
                                              static_cast<int64_t>(ranks)));
    run.logs.push_back(std::move(log));
  }
  const auto stages = static_cast<size_t>(spec.schedule.stages);
  for (size_t rank = 0; rank < ranks; ++rank) {
    run.logs[rank].RanksAre(static_cast<int64_t>(rank / stages),
                            static_cast<int64_t>(rank % stages), spec.schedule.stages);
  }
  return run;
}

void EmitFact(EventSink& sink, const std::string& key, const std::string& value) {
  sink.Emit({{"event", "fact"}, {"key", key}, {"value", value.substr(0, 2000)}});
}

// `counts`: its loss is one.
void EmitRun(const ProgramRun& run, absl::Time began, bool counts, EventSink& sink) {
  int64_t last_step = 0;
  std::optional<double> error;
  for (const ProgramLog& log : run.logs) {
    for (const StepRow& step : StepsOf(log, Seconds(began))) {
      sink.Emit(EventOf("step", step));
      last_step = std::max(last_step, step.step);
    }
    for (const CrossingRow& row : log.crossings) sink.Emit(EventOf("told_crossing", row));
    for (const auto& [name, value] : log.environment) EmitFact(sink, "read_" + name, value);
    if (log.standard_error_nat) error = log.standard_error_nat;
  }
  for (const auto& [key, value] : FactsOf(run.ended.ranks)) EmitFact(sink, key, value);
  if (!counts) return;
  for (const auto& [codec, loss] :
       {std::pair(EvalCodec::kOff, FinalOf(run.logs)), {EvalCodec::kOn, FinalOnOf(run.logs)}}) {
    if (!loss) continue;
    const EvaluationRow row{last_step, codec, *loss, error.value_or(0), 0};
    sink.Emit(EventOf("evaluation", row));
  }
}

absl::Status Run(const RunSpec& spec, const std::string& outside, EventSink& sink) {
  RETURN_IF_ERROR(CheckFiles(spec, kAllFiles));
  const absl::Time began = MonotonicNow();
  ASSIGN_OR_RETURN(const ProgramRun run, RunRanks(spec, outside));
  const absl::Status verdict = Judge(spec, run);
  EmitRun(run, began, verdict.ok(), sink);
  return verdict;
}

}  // namespace

std::string PidNamespace() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/ns/pid", error).string();
}

int ProgramMain(const RunSpec& spec, int events_fd, const std::string& outside) {
  setsid();  // what a terminal sends is the command's to answer
  FdEventSink sink(events_fd);
  const absl::Status status = Run(spec, outside, sink);
  if (status.ok()) return 0;
  sink.Emit({{"event", "failed"},
             {"rank", -1},
             {"who", "the program"},
             {"diverged", absl::IsOutOfRange(status)},
             {"invalid", absl::IsAborted(status)},
             {"message", std::string(status.message()).substr(0, 2000)}});
  return 1;
}

}  // namespace longhaul
