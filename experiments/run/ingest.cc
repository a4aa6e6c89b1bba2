#include "experiments/run/ingest.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "absl/strings/str_join.h"
#include "experiments/run/first_cause.h"
#include "experiments/run/run_recorder.h"

namespace longhaul {
namespace {

int64_t Ranks(const RunSpec& spec) { return spec.schedule.stages * spec.outer.groups; }

// Those that ended without a word are the cause of what the others report.
void SeeSilent(const Attempt& attempt, FirstCause& cause) {
  std::vector<std::string> silent;
  for (const auto& [rank, file] : attempt.by_rank) {
    if (file.finished || !file.failure.empty()) continue;
    silent.push_back(fmt::format("rank {} on {} after step {}", rank, file.host, file.last_step));
  }
  if (silent.empty()) return;
  cause.Fail(absl::StrJoin(silent, ", ") +
             ": ended without a word (killed, stopped by its launcher, or its machine was lost)");
}

absl::Status TakeAttempt(Record& record, int64_t run, const RunSpec& spec, const Attempt& attempt) {
  RunRecorder recorder(record, run, spec);
  FirstCause cause;
  SeeSilent(attempt, cause);
  for (const auto& [rank, file] : attempt.by_rank) {
    absl::Status read = ForEachEvent(file.path, [&](const nlohmann::json& event) {
      recorder.See(event);
      cause.See(event);
    });
    if (read.ok()) read = recorder.Flush();
    if (!read.ok()) return recorder.Finish(read);
  }
  return recorder.Finish(cause.status());
}

RunRow RowOf(const RunSpec& spec, int64_t experiment, const std::string& arm,
             const Attempt& first) {
  RunRow row = NewRunRow(spec, experiment, arm);
  const EventFile& rank0 = first.by_rank.at(0);
  std::set<std::string> hosts;
  for (const auto& [rank, file] : first.by_rank) {
    hosts.insert(file.host);
    row.facts[fmt::format("host_of_rank_{}", rank)] = file.host;
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
  std::string words = {};
};

absl::StatusOr<Begun> BeginOrGoOn(Record& record, int64_t experiment, const std::string& arm,
                                  const RunSpec& spec, const EventFolder& events) {
  const std::string id = std::to_string(events.attempts.front().id);
  const auto known = record.RunWithFact(kFirstAttemptFact, id);
  if (!known.ok()) return known.status();
  if (!*known) {
    const auto run = record.BeginRun(RowOf(spec, experiment, arm, events.attempts.front()));
    if (!run.ok()) return run.status();
    return Begun{.run = *run};
  }
  const auto row = record.Run(**known);
  if (!row.ok()) return row.status();
  const auto taken = row->facts.find(kAttemptsTakenFact);
  Begun begun{
      .run = row->id,
      .taken = taken == row->facts.end() ? 0 : std::strtoull(taken->second.c_str(), nullptr, 10)};
  const bool over = row->status == RunStatus::kOk || row->status == RunStatus::kPartial ||
                    row->status == RunStatus::kDiverged;
  begun.ended = over || (begun.taken >= events.attempts.size() && row->status != RunStatus::kDied &&
                         row->status != RunStatus::kInterrupted);
  if (begun.ended) {
    begun.words = fmt::format("these events are in the record as run {} ({}{}{})", row->id,
                              ToString(row->status), row->reason.empty() ? "" : ": ", row->reason);
    return begun;
  }
  if (absl::Status s = record.ResumeRun(row->id); !s.ok()) return s;
  return begun;
}

absl::Status OutcomeOf(const Record& record, int64_t run) {
  const auto row = record.Run(run);
  if (!row.ok()) return row.status();
  if (row->status == RunStatus::kOk) return absl::OkStatus();
  return absl::FailedPreconditionError(row->reason);
}

}  // namespace

absl::Status CheckEvents(const RunSpec& spec, const EventFolder& events) {
  for (const Attempt& attempt : events.attempts) {
    const auto beyond = attempt.by_rank.lower_bound(Ranks(spec));
    if (beyond != attempt.by_rank.end() || attempt.by_rank.begin()->first < 0) {
      return absl::DataLossError(fmt::format(
          "ingest: {}: no rank of a run with {}",
          (beyond != attempt.by_rank.end() ? beyond->second : attempt.by_rank.begin()->second).path,
          Ranks(spec)));
    }
    std::vector<std::string> missing;
    for (int64_t rank = 0; rank < Ranks(spec); ++rank) {
      const auto at = attempt.by_rank.find(rank);
      if (at == attempt.by_rank.end()) {
        missing.push_back(std::to_string(rank));
      } else if (at->second.alive) {
        return absl::UnavailableError(
            fmt::format("ingest: {} is being written: rank {} still runs", at->second.path, rank));
      }
    }
    if (missing.empty()) continue;
    return absl::FailedPreconditionError(fmt::format(
        "ingest: of the start at {} the events of rank {} are not here; copy their hosts' folders "
        "into this one",
        attempt.by_rank.begin()->second.begun_utc, absl::StrJoin(missing, ", ")));
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

absl::StatusOr<Ingested> IngestEvents(Record& record, int64_t experiment, const std::string& arm,
                                      const RunSpec& spec, const EventFolder& events) {
  if (absl::Status s = CheckEvents(spec, events); !s.ok()) return s;
  const auto begun = BeginOrGoOn(record, experiment, arm, spec, events);
  if (!begun.ok()) return begun.status();
  Ingested result{.run = begun->run, .outcome = absl::OkStatus(), .words = {}};
  if (begun->ended) {
    result.words.push_back(begun->words);
    result.outcome = OutcomeOf(record, begun->run);
    return result;
  }
  const size_t starts = events.attempts.size();
  for (size_t i = std::min(begun->taken, starts - 1); i < starts; ++i) {
    const Attempt& attempt = events.attempts[i];
    result.outcome = TakeAttempt(record, result.run, spec, attempt);
    const auto facts =
        std::map<std::string, std::string>{{kAttemptsTakenFact, std::to_string(i + 1)}};
    if (absl::Status s = record.AddFacts(result.run, facts); !s.ok()) return s;
    for (const auto& [rank, file] : attempt.by_rank) {
      if (file.torn)
        result.words.push_back(file.path + ": its last line has no end and is left out");
    }
    if (i + 1 == starts) break;
    if (result.outcome.ok()) {
      result.words.push_back(
          fmt::format("{} later start(s) left out: the run had ended ok", starts - i - 1));
      break;
    }
    result.words.push_back(
        fmt::format("start {} of {}: {}", i + 1, starts, std::string(result.outcome.message())));
    if (absl::Status s = record.ResumeRun(result.run); !s.ok()) return s;
  }
  return result;
}

}  // namespace longhaul
