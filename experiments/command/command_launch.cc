// `launch`: any program as N ranks behind shaped, verified links, and a record of it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "experiments/command/command.h"
#include "experiments/command/command_net.h"
#include "experiments/command/net_programs.h"
#include "experiments/command/output.h"
#include "experiments/launch/launch_record.h"
#include "experiments/launch/rank_output.h"
#include "experiments/run/cancel_signal.h"
#include "experiments/spec/known_names.h"
#include "netem/lab_control/lab_client.h"
#include "netem/lab_control/node_entry.h"
#include "netem/topology/figure_text.h"

namespace longhaul {
namespace {

using nlohmann::json;

constexpr size_t kMostRows = 8, kMostRemarks = 5;  // on a screen

struct LaunchOptions {
  std::shared_ptr<LinkOptions> links = std::make_shared<LinkOptions>();
  std::string profile, file;  // the same links by an option
  std::string gpus, name, results;
  std::string grace = "5s";
  std::string probe = "full", out_of_bounds = "stop";
  bool raw = false;
  int port = kMasterPort;
  OutputOptions output;
};

// A launch from its lab to its record.
class Launch {
 public:
  Launch(const LaunchOptions& options, std::vector<std::string> command, CommandOutput& out)
      : options_(options), command_(std::move(command)), out_(out) {}

  // 0, the exit status of the first rank that ended otherwise, or 128 + the signal that ended it all.
  absl::StatusOr<int> Run();

 private:
  absl::Status Prepare();
  absl::Status BeginRecord();
  absl::Status ReadyRun();
  absl::Status Programs();
  absl::Status Start(std::vector<StartedProgram>& running);
  absl::Status AfterPrograms();
  absl::Status Verify(LinkPhase phase);
  absl::Status Finish(const absl::Status& outcome);
  absl::StatusOr<json> Ask(const json& request, absl::Duration timeout) const;
  absl::StatusOr<json> Probe(LinkPhase phase);
  EnvironmentChanges EnvironmentOf(size_t rank) const;
  std::string LogFile(size_t rank) const;
  absl::Status Show() const;
  void Say(const std::string& line) const {
    fmt::print(out_.progress(), "{}\n", line);
    std::fflush(out_.progress());
  }

  const LaunchOptions& options_;
  const std::vector<std::string> command_;
  CommandOutput& out_;
  LabSpec lab_;
  std::string name_, folder_;
  std::vector<std::string> gpus_;
  EndingRules rules_;
  std::optional<LabStore> store_;
  std::optional<Record> record_;
  std::optional<RankOutput> output_;
  int64_t run_ = 0;
  int status_ = 0;  // of the program, or 128 + the signal that ended the launch
  bool interrupted_ = false;
  sigset_t mask_ = {};                  // of signals blocked, as the program is to find it
  std::optional<CancelSignal> cancel_;  // while there is a record
  json before_, counted_;               // the lab's counters around the program
  double began_s_ = 0;
  std::vector<RankEnd> ends_;
  std::vector<std::string> remarks_;
};

absl::Status Launch::Prepare() {
  if (command_.empty()) {
    return absl::InvalidArgumentError(
        "launch -n N --profile P -- CMD...: no CMD; it stands behind --");
  }
  ASSIGN_OR_RETURN(auto lab, LabOf(*options_.links));
  name_ = options_.name.empty() ? lab.name : options_.name;
  RETURN_IF_ERROR(CheckArmName("--name", name_));
  folder_ = options_.results.empty() ? "results/" + name_ : options_.results;
  lab_ = std::move(lab);
  lab_.name = fmt::format("launch-{}", getpid());
  lab_.with_caller = true;
  const auto grace = ReadTime("grace", options_.grace);
  if (!grace.ok()) return grace.status();
  if (*grace < absl::ZeroDuration()) return absl::InvalidArgumentError("--grace: want 0 or more");
  rules_.grace = *grace;
  if (!options_.gpus.empty()) gpus_ = absl::StrSplit(options_.gpus, ',');
  for (const std::string& gpu : gpus_) {
    int number = 0;
    if (absl::SimpleAtoi(gpu, &number) && number >= 0) continue;
    return absl::InvalidArgumentError(
        fmt::format("--gpus: '{}' in '{}'; want numbers of GPUs as 0 or 0,1", gpu, options_.gpus));
  }
  return absl::OkStatus();
}

absl::StatusOr<json> Launch::Ask(const json& request, absl::Duration timeout) const {
  ASSIGN_OR_RETURN(auto answer, AskLab(*store_, lab_.name, request, timeout));
  return std::move(answer.message);
}

// A signal ends the probe, and the launch.
absl::StatusOr<json> Launch::Probe(LinkPhase phase) {
  const bool full = options_.probe == "full";
  Say(fmt::format("links: probing {} paths {} the program", lab_.topology.paths.size(),
                  phase == LinkPhase::kBefore ? "before" : "after"));
  auto seen =
      AskLab(*store_, lab_.name,
             {{"do", "probe"}, {"pings", 20}, {"rate", full}, {"loss_datagrams", full ? 2000 : 0}},
             absl::Hours(1), cancel_->fd());
  if (seen.ok()) return std::move(seen->message);
  if (!absl::IsCancelled(seen.status())) return seen.status();
  const int signal = cancel_->Take();
  interrupted_ = true;
  status_ = 128 + signal;
  remarks_.push_back(fmt::format("ended by signal {} while links were probed {} the program",
                                 signal, phase == LinkPhase::kBefore ? "before" : "after"));
  return seen.status();
}

EnvironmentChanges Launch::EnvironmentOf(size_t rank) const {
  EnvironmentChanges environment = JobEnvironment(NamesOf(lab_.topology), rank, options_.port);
  environment["LONGHAUL_LOG"] = LogFile(rank);
  environment["LONGHAUL_RUN"] = fmt::format("{}", run_);
  if (!gpus_.empty()) environment["CUDA_VISIBLE_DEVICES"] = gpus_[rank % gpus_.size()];
  if (getenv("OMP_NUM_THREADS") == nullptr) environment["OMP_NUM_THREADS"] = "1";  // as torchrun
  return environment;
}

std::string Launch::LogFile(size_t rank) const {
  return fmt::format("{}/launch-{}/rank-{}.jsonl", std::filesystem::absolute(folder_).string(),
                     run_, rank);
}

absl::Status Launch::Verify(LinkPhase phase) {
  json probe = json::object();
  if (options_.probe != "none") {
    ASSIGN_OR_RETURN(auto seen, Probe(phase));
    probe = std::move(seen);
  }
  auto stats = Ask({{"do", "stats"}}, absl::Minutes(1));
  if (!stats.ok()) return stats.status();
  const auto rows = LinkRowsOf(lab_.topology, phase, probe, *stats);
  RETURN_IF_ERROR(record_->Add(run_, rows));
  if (phase == LinkPhase::kBefore) before_ = *std::move(stats);
  for (const LinkRow& row : rows) {
    if (row.why.empty()) continue;
    const std::string what =
        fmt::format("path {} > {} {} {} the program: {}", lab_.topology.nodes[row.src_node].name,
                    lab_.topology.nodes[row.dst_node].name,
                    row.ok ? "had late packets" : "was out of bounds", ToString(phase), row.why);
    if (!row.ok && options_.out_of_bounds == "stop") return absl::FailedPreconditionError(what);
    remarks_.push_back(what);
  }
  return absl::OkStatus();
}

absl::Status Launch::BeginRecord() {
  ASSIGN_OR_RETURN(auto opened,
                   OpenExperiment(folder_, {.kind = ExperimentKind::kRun, .name = name_}));
  record_.emplace(std::move(opened.record));
  const LaunchPlan plan{.name = name_,
                        .command = command_,
                        .links = options_.links->links.empty() ? "figures" : options_.links->links,
                        .topology = lab_.topology};
  ASSIGN_OR_RETURN(const auto run, record_->BeginRun(LaunchRow(plan, opened.id)));
  run_ = run;
  return absl::OkStatus();
}

absl::Status Launch::ReadyRun() {
  const auto info = Ask({{"do", "info"}}, absl::Seconds(10));
  if (!info.ok()) return info.status();
  const std::string& congestion_control = options_.links->emulation.congestion_control;
  if (auto s = record_->SetLab(run_, info->value("emulator", ""), congestion_control); !s.ok()) {
    return s;
  }
  const std::filesystem::path folder = std::filesystem::path(LogFile(0)).parent_path();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return absl::UnavailableError(
        fmt::format("cannot make {}: {}", folder.string(), error.message()));
  }
  return Verify(LinkPhase::kBefore);
}

// Forks a process for every rank; what fails leaves those that are started in `running`.
absl::Status Launch::Start(std::vector<StartedProgram>& running) {
  const sigset_t signals = SignalsOfRun();
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  for (size_t rank = 0; rank < lab_.topology.nodes.size(); ++rank) {
    NodeStart start{.keeps_input = rank == 0, .environment = EnvironmentOf(rank)};
    if (output_) start.before = [this, rank] { return output_->TakeIn(rank); };
    ASSIGN_OR_RETURN(const auto pid, StartInNode(*store_, lab_, {rank, command_}, start, mask_));
    running.push_back({pid, fmt::format("rank {}", rank)});
  }
  return absl::OkStatus();
}

absl::Status Launch::Programs() {
  if (!options_.raw) {
    ASSIGN_OR_RETURN(auto output, RankOutput::Make(lab_.topology.nodes.size()));
    output_.emplace(std::move(output));
  }
  const absl::Time began = MonotonicNow();
  began_s_ = Seconds(began);
  std::vector<StartedProgram> running;
  const absl::Status started = Start(running);
  if (output_) output_->Start();
  if (!started.ok()) {
    for (const StartedProgram& program : running) KillProgramOf(program.pid);
  }
  std::vector<ProgramEnd> ends;
  rules_.interrupted = &interrupted_;
  status_ = WaitForPrograms(running, rules_, &ends);
  const RanksEnded ended = EndsOfRanks(running, ends, status_, began);
  ends_ = ended.ranks;
  if (ended.first_to_fail) {
    remarks_.push_back(fmt::format("rank {} ended with {}", *ended.first_to_fail,
                                   EndText(ends_[*ended.first_to_fail].status)));
  }
  return started;
}

// Counters first, which the second probe would add to.
absl::Status Launch::AfterPrograms() {
  auto counted = Ask({{"do", "stats"}}, absl::Minutes(1));
  if (!counted.ok()) {
    return absl::UnavailableError(
        "the lab's process ended before the program did, and its counts with it: was it killed?");
  }
  counted_ = *std::move(counted);
  std::vector<ProgramLog> logs(ends_.size());
  for (size_t rank = 0; rank < ends_.size(); ++rank) {
    ASSIGN_OR_RETURN(auto read, ReadProgramLog(LogFile(rank), static_cast<int64_t>(rank),
                                               static_cast<int64_t>(ends_.size())));
    logs[rank] = std::move(read);
    if (logs[rank].bad_lines == 0) continue;
    remarks_.push_back(
        fmt::format("rank {} wrote {} lines to $LONGHAUL_LOG that are none of "
                    "longhaul.log's; {}",
                    rank, logs[rank].bad_lines, logs[rank].first_bad));
  }
  RETURN_IF_ERROR(
      AddProgramLogs(*record_, run_, lab_.topology, logs, ends_, began_s_, before_, counted_));
  if (status_ != 0) return absl::OkStatus();  // a program that failed says nothing of links
  return Verify(LinkPhase::kAfter);
}

absl::Status Launch::Finish(const absl::Status& outcome) {
  std::error_code ignored;  // what was told is in the record now
  std::filesystem::remove_all(std::filesystem::path(LogFile(0)).parent_path(), ignored);
  std::string reason(interrupted_ ? "" : outcome.message());
  if (reason.empty() && !remarks_.empty()) reason = fmt::format("{}", fmt::join(remarks_, "; "));
  const RunStatus status = interrupted_                          ? RunStatus::kInterrupted
                           : absl::IsFailedPrecondition(outcome) ? RunStatus::kInvalid
                           : !outcome.ok() || status_ != 0       ? RunStatus::kFailed
                                                                 : RunStatus::kOk;
  return record_->FinishRun(run_, status, reason);
}

absl::StatusOr<int> Launch::Run() {
  RETURN_IF_ERROR(Prepare());
  ASSIGN_OR_RETURN(auto store, LabStore::Open());
  store_.emplace(std::move(store));
  // Before the record: a lab that cannot be leaves no row of a run.
  RETURN_IF_ERROR(StartLabDaemon(*store_, lab_));
  fmt::print(out_.warnings(), "{}", MissingPathsText(lab_.topology));
  ReportReplaced(JobEnvironment(NamesOf(lab_.topology), 0, options_.port));
  sigprocmask(SIG_BLOCK, nullptr, &mask_);
  cancel_.emplace();
  absl::Status outcome = BeginRecord();
  if (outcome.ok()) {
    outcome = ReadyRun();
    if (outcome.ok()) outcome = Programs();
    if (outcome.ok()) outcome = AfterPrograms();
    if (absl::Status finished = Finish(outcome); outcome.ok()) outcome = finished;
  }
  const absl::Status down = TakeDown(*store_, lab_.name);
  if (output_) output_->Finish();  // processes that the lab's end has ended may have held our pipes
  if (!outcome.ok() && !interrupted_) return outcome;
  if (!down.ok()) return down;
  RETURN_IF_ERROR(Show());
  return status_;
}

// The ranks, the paths, and where it is written.
absl::Status Launch::Show() const {
  if (out_.json()) return ShowFromRecord(out_, "line", *record_, run_, absl::OkStatus());
  const bool all = out_.detail() == Detail::kAll;
  if (!ends_.empty()) {
    fmt::print(out_.progress(), "\n{}",
               LaunchSummary(lab_.topology, ends_, BytesBetween(lab_.topology, before_, counted_),
                             all ? SIZE_MAX : kMostRows));
  }
  for (size_t i = 0; i < remarks_.size(); ++i) {
    if (i == kMostRemarks && !all) {
      fmt::print(out_.warnings(), "and {} remarks more (--verbose)\n", remarks_.size() - i);
      break;
    }
    fmt::print(out_.warnings(), "{}\n", remarks_[i]);
  }
  const absl::Status shown = ShowFromRecord(out_, "line", *record_, run_, absl::OkStatus());
  fmt::print("{}", RecordLine(folder_));
  return shown;
}

// The links may be an argument or one of two options; what says otherwise than another is refused.
absl::Status TakeLinks(const LaunchOptions& options) {
  std::string& links = options.links->links;
  for (const std::string& other : {options.profile, options.file}) {
    if (!other.empty() && !links.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("links '{}' and '{}': want one of them", links, other));
    }
    if (!other.empty()) links = other;
  }
  return absl::OkStatus();
}

}  // namespace

void AddLaunchCommand(CLI::App& app, const std::vector<std::string>* program, int* exit_status) {
  auto options = std::make_shared<LaunchOptions>();
  CLI::App* command = app.add_subcommand(
      "launch", "Run any program as N ranks behind emulated WAN links, and record it");
  command->group("Measure");
  command->footer(
      "Example:\n"
      "  longhaul launch -n 2 --profile continental-us -- python train.py");
  AddLinkOptions(*command, options->links);
  command
      ->add_option("-n", options->links->nodes,
                   "Number of ranks, each in a separate node (same as --nodes)")
      ->check(CLI::Range(2, 26));
  command->add_option("--profile", options->profile, "Name of a link profile (same as LINKS)");
  command->add_option("--links", options->file,
                      "Profile, region table or topology file (same as LINKS)");
  command->add_option("--gpus", options->gpus, "GPUs for the ranks in turn, such as 0 or 0,1")
      ->capture_default_str();
  command->add_option("--name", options->name, "Name of the run [default: name of the links]");
  command->add_option("--results", options->results,
                      "Folder of the record [default: results/NAME]");
  command
      ->add_option("--probe", options->probe,
                   "Probe the links before and after: full, quick (round trips only) or none")
      ->check(CLI::IsMember({"full", "quick", "none"}))
      ->capture_default_str();
  command
      ->add_option("--out-of-bounds", options->out_of_bounds,
                   "If a link is out of bounds: stop the run, or flag it in the record")
      ->check(CLI::IsMember({"stop", "flag"}))
      ->capture_default_str();
  command->add_option("--grace", options->grace, "Time between SIGTERM and SIGKILL")
      ->capture_default_str();
  command->add_option("--port", options->port, "Port of the rendezvous (MASTER_PORT)")
      ->check(CLI::Range(1, 65535))
      ->capture_default_str();
  command->add_flag("--raw", options->raw, "Do not prefix output lines with [rank]");
  AddOutputOptions(*command, options->output);
  command->callback([options, program, exit_status] {
    CommandOutput out(options->output);
    const absl::Status links = TakeLinks(*options);
    const absl::StatusOr<int> status =
        links.ok() ? Launch(*options, *program, out).Run() : absl::StatusOr<int>(links);
    *exit_status = status.ok() ? *status : out.Finish("longhaul.run/1", status.status());
  });
}

}  // namespace longhaul
