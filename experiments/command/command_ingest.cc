#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "experiments/command/command.h"
#include "experiments/command/output.h"
#include "experiments/record/record.h"
#include "experiments/record/row_json.h"
#include "experiments/run/endings.h"
#include "experiments/run/event_folder.h"
#include "experiments/run/run_recorder.h"
#include "experiments/spec/known_names.h"
#include "experiments/spec/spec.h"
#include "netem/topology/toml_tree.h"

namespace longhaul {
namespace {

// Facts of a run whose workers no command of ours started.
constexpr char kFirstAttemptFact[] = "first_attempt";  // Attempt::id: which run these events are of
constexpr char kAttemptsTakenFact[] = "attempts_taken";

struct Ingested {
  int64_t run;
  absl::Status outcome;              // RunRecorder::Finish of the last attempt
  std::vector<std::string> notices;  // what a person should know, one line each
};

int64_t Ranks(const RunSpec& spec) { return spec.workers(); }

// Those of them that ended without a word; "": none did.
std::string Silent(const std::map<int64_t, const EventFile*>& by_rank) {
  std::vector<std::string> silent;
  for (const auto& [rank, file] : by_rank) {
    if (file->finished || !file->failure.empty() || !file->lost.empty()) continue;
    silent.push_back(fmt::format("rank {} on {} after step {}", rank, file->host, file->last_step));
  }
  if (silent.empty()) return "";
  return absl::StrJoin(silent, ", ") +
         ": ended without a word (killed, stopped by its launcher, or its machine was lost)";
}

// One start after the other of groups that come and go, or the one start of all ranks. Nobody wrote
// down when a thing happened on which host: rows come in the order of lives and ranks, which is
// their own order within every group.
class AttemptReader {
 public:
  AttemptReader(Record& record, int64_t run, const RunSpec& spec, const Attempt& attempt)
      : record_(record), run_(run), spec_(spec), attempt_(attempt), recorder_(record, run, spec) {}

  absl::Status Take(std::vector<std::string>& notices) {
    const std::string silent = Silent(attempt_.LastByRank());
    if (!OverWithoutSome() && !silent.empty()) cause_.Fail(silent);
    for (auto at = attempt_.files.begin(); at != attempt_.files.end();) {
      const int64_t life = at->first.life, group = GroupOf(at->first.rank);
      std::map<int64_t, const EventFile*> by_rank;
      for (;
           at != attempt_.files.end() && at->first.life == life && GroupOf(at->first.rank) == group;
           ++at) {
        by_rank[at->first.rank] = &at->second;
        if (absl::Status read = Read(at->second); !read.ok()) return recorder_.Finish(read);
      }
      if (Elastic()) RecordEnd(group, life, by_rank, notices);
    }
    const absl::Status outcome = recorder_.Finish(cause_.status());
    const absl::Status timeless = ForgetRecoveryTimes();
    return timeless.ok() ? outcome : timeless;
  }

 private:
  bool Elastic() const { return spec_.outer.on_group_loss == "continue"; }
  int64_t GroupOf(int64_t rank) const { return rank / spec_.ranks(); }
  // The run went on without those that are lost, to its end.
  bool OverWithoutSome() const {
    return Elastic() && std::any_of(attempt_.files.begin(), attempt_.files.end(),
                                    [](const auto& process) { return process.second.finished; });
  }
  absl::Status Read(const EventFile& file) {
    const bool over = OverWithoutSome();
    absl::Status read = ForEachEvent(file.path, [&](const nlohmann::json& event) {
      recorder_.Observe(event);
      if (!over) cause_.Observe(event);
    });
    return read.ok() ? recorder_.Flush() : read;
  }

  // What a lab says of a group that loses a worker.
  void RecordEnd(int64_t group, int64_t life, const std::map<int64_t, const EventFile*>& by_rank,
                 std::vector<std::string>& notices) {
    std::string how = Silent(by_rank);
    bool ended = true;
    for (const auto& [rank, file] : by_rank) {
      if (file->left) return;
      ended = ended && file->finished;
      const std::string& said = file->failure.empty() ? file->lost : file->failure;
      if (how.empty() && !said.empty()) how = fmt::format("rank {}: {}", rank, said);
    }
    if (ended) return;
    recorder_.Observe(EventOf("fault", FaultRow{.number = 0,
                                                .step = 0,
                                                .what = "lost",
                                                .place = fmt::format("group {}", group),
                                                .group_index = group,
                                                .said = how}));
    notices.push_back(fmt::format("group {}, life {}: {}", group, life, how));
  }

  // Nobody saw how long a group was away.
  absl::Status ForgetRecoveryTimes() {
    ASSIGN_OR_RETURN(std::vector<FaultRow> faults, record_.RowsOf<FaultRow>(run_));
    for (FaultRow& fault : faults) fault.recovery_s.reset();
    return faults.empty() ? absl::OkStatus() : record_.Add(run_, faults);
  }

  Record& record_;
  const int64_t run_;
  const RunSpec& spec_;
  const Attempt& attempt_;
  RunRecorder recorder_;
  RootCause cause_;
};

RunRow RowOf(const RunSpec& spec, int64_t experiment, const std::string& arm,
             const Attempt& first) {
  RunRow row = NewRunRow(spec, experiment, arm);
  const EventFile& rank0 = *first.LastByRank().at(0);
  std::set<std::string> hosts;
  for (const auto& [process, file] : first.files) {
    hosts.insert(file.host);
    row.facts[fmt::format("host_of_rank_{}", process.rank)] = file.host;
  }
  row.host = absl::StrJoin(hosts, ",");
  row.kernel = rank0.kernel;
  row.cpu = rank0.cpu;
  row.isa = rank0.isa;
  row.torch_version = rank0.torch;
  row.git_revision = rank0.git_revision;
  row.profile = "external";
  row.facts.erase("cores");  // of this machine, which may have trained nothing
  row.facts.erase("load_1min_at_start");
  row.facts["trained_from_utc"] = rank0.begun_utc;
  row.facts[kFirstAttemptFact] = std::to_string(first.id);
  return row;
}

// The run of these events, begun or taken over, and how many of its starts it has.
struct Begun {
  int64_t run = 0;
  size_t taken = 0;
  bool ended = false;  // nothing is to be added
  std::string notice = {};
};

absl::StatusOr<Begun> BeginOrResume(Record& record, int64_t experiment, const std::string& arm,
                                    const RunSpec& spec, const EventFolder& events) {
  const std::string id = std::to_string(events.attempts.front().id);
  ASSIGN_OR_RETURN(const auto known, record.RunWithFact(kFirstAttemptFact, id));
  if (!known) {
    ASSIGN_OR_RETURN(const auto run,
                     record.BeginRun(RowOf(spec, experiment, arm, events.attempts.front())));
    return Begun{.run = run};
  }
  ASSIGN_OR_RETURN(const auto row, record.Run(*known));
  Begun begun{.run = row.id,
              .taken = std::strtoull(FactOf(row.facts, kAttemptsTakenFact).c_str(), nullptr, 10)};
  const bool over = row.status == RunStatus::kOk || row.status == RunStatus::kPartial ||
                    row.status == RunStatus::kDiverged;
  begun.ended = over || (begun.taken >= events.attempts.size() && row.status != RunStatus::kDied &&
                         row.status != RunStatus::kInterrupted);
  if (begun.ended) {
    begun.notice = fmt::format("these events are in the record as run {} ({}{}{})", row.id,
                               ToString(row.status), row.reason.empty() ? "" : ": ", row.reason);
    return begun;
  }
  RETURN_IF_ERROR(record.ResumeRun(row.id));
  return begun;
}

absl::Status OutcomeOf(const Record& record, int64_t run) {
  ASSIGN_OR_RETURN(const auto row, record.Run(run));
  if (row.status == RunStatus::kOk) return absl::OkStatus();
  return absl::FailedPreconditionError(row.reason);
}

// Whether a record can be made of these. Unavailable: a worker still runs. FailedPrecondition: no
// start in which all ranks met, with what they said; a rank whose events are not here. DataLoss: a
// rank that the run does not have.
absl::Status CheckEvents(const RunSpec& spec, const EventFolder& events) {
  for (const Attempt& attempt : events.attempts) {
    for (const auto& [process, file] : attempt.files) {
      if (process.rank < 0 || process.rank >= Ranks(spec)) {
        return absl::DataLossError(
            fmt::format("ingest: {}: no rank of a run with {}", file.path, Ranks(spec)));
      }
      if (file.alive) {
        return absl::UnavailableError(fmt::format("ingest: {} is being written: rank {} still runs",
                                                  file.path, process.rank));
      }
    }
    const auto last = attempt.LastByRank();
    std::vector<std::string> missing;
    for (int64_t rank = 0; rank < Ranks(spec); ++rank) {
      if (!last.contains(rank)) missing.push_back(std::to_string(rank));
    }
    if (missing.empty()) continue;
    return absl::FailedPreconditionError(fmt::format(
        "ingest: of the start at {} the events of rank {} are not here; copy their hosts' folders "
        "into this one",
        attempt.files.begin()->second.begun_utc, absl::StrJoin(missing, ", ")));
  }
  if (!events.attempts.empty()) return absl::OkStatus();
  std::vector<std::string> said;
  for (const EventFile& file : events.never_met) {
    said.push_back(fmt::format("rank {} on {}: {}", file.rank, file.host,
                               file.failure.empty() ? "ended without a word" : file.failure));
  }
  return absl::FailedPreconditionError("ingest: in no start all ranks met; " +
                                       absl::StrJoin(said, "; "));
}

// Writes the run whose workers left these events into the record, start by start, as RunRecorder
// does while it watches one. A second call adds the starts that came after the first, or says that
// there are none. The links are not ours: the record has none, its profile is "external".
// Errors as CheckEvents.
absl::StatusOr<Ingested> IngestEvents(Record& record, int64_t experiment, const std::string& arm,
                                      const RunSpec& spec, const EventFolder& events) {
  RETURN_IF_ERROR(CheckEvents(spec, events));
  ASSIGN_OR_RETURN(const auto begun, BeginOrResume(record, experiment, arm, spec, events));
  Ingested result{.run = begun.run, .outcome = absl::OkStatus(), .notices = {}};
  if (begun.ended) {
    result.notices.push_back(begun.notice);
    result.outcome = OutcomeOf(record, begun.run);
    return result;
  }
  const size_t starts = events.attempts.size();
  for (size_t i = std::min(begun.taken, starts - 1); i < starts; ++i) {
    const Attempt& attempt = events.attempts[i];
    result.outcome = AttemptReader(record, result.run, spec, attempt).Take(result.notices);
    const auto facts =
        std::map<std::string, std::string>{{kAttemptsTakenFact, std::to_string(i + 1)}};
    RETURN_IF_ERROR(record.AddFacts(result.run, facts));
    for (const auto& [process, file] : attempt.files) {
      if (file.torn)
        result.notices.push_back(file.path + ": its last line has no end and is left out");
    }
    if (i + 1 == starts) break;
    if (result.outcome.ok()) {
      result.notices.push_back(
          fmt::format("{} later start(s) left out: the run had ended ok", starts - i - 1));
      break;
    }
    result.notices.push_back(
        fmt::format("start {} of {}: {}", i + 1, starts, std::string(result.outcome.message())));
    RETURN_IF_ERROR(record.ResumeRun(result.run));
  }
  return result;
}

struct IngestArguments {
  std::string events;
  std::string results;
  std::string arm;
  OutputOptions output;
};

absl::Status IngestAndShow(const IngestArguments& arguments, CommandOutput& out) {
  RETURN_IF_ERROR(CheckArmName("--arm", arguments.arm));
  const auto events = ReadEventFolder(arguments.events);
  if (!events.ok()) return events.status();
  // As the workers resolved it: its paths count from where they were started.
  ASSIGN_OR_RETURN(const auto resolved, ReadTomlFile(arguments.events + "/spec.toml"));
  ASSIGN_OR_RETURN(const auto spec, ReadRunSpec(resolved, CatalogNames()));
  RETURN_IF_ERROR(CheckEvents(spec, *events));
  ASSIGN_OR_RETURN(auto opened, OpenExperiment(arguments.results, {.kind = ExperimentKind::kRun,
                                                                   .name = arguments.arm}));
  auto& [record, experiment] = opened;
  ASSIGN_OR_RETURN(const auto ingested,
                   IngestEvents(record, experiment, arguments.arm, spec, *events));
  for (const std::string& line : ingested.notices) {
    std::fputs((line + "\n").c_str(), out.progress());
  }
  const absl::Status shown = ShowFromRecord(out, "line", record, ingested.run, ingested.outcome);
  return ingested.outcome.ok() ? shown : ingested.outcome;
}

}  // namespace

void AddIngestCommand(CLI::App& app, int* exit_status) {
  auto arguments = std::make_shared<IngestArguments>();
  CLI::App* command =
      app.add_subcommand("ingest", "Make a record from the events of workers (worker --events)");
  command->group("Cluster");
  command->footer("Example:\n  longhaul ingest events --results results/cluster");
  command->add_option("events", arguments->events, "Folder of events, of all hosts")->required();
  command->add_option("--results", arguments->results, "Folder of the record")->required();
  command->add_option("--arm", arguments->arm, "Name of this configuration in the record")
      ->default_val("workers");
  AddOutputOptions(*command, arguments->output);
  command->callback([arguments, exit_status] {
    CommandOutput out(arguments->output);
    *exit_status = out.Finish("longhaul.run/1", IngestAndShow(*arguments, out));
  });
}

}  // namespace longhaul
