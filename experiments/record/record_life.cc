// The life of a run: begun or claimed, taken over, ended.
#include <unistd.h>

#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "compressors/numbers/sha256.h"
#include "experiments/record/file_contents.h"
#include "experiments/record/record.h"
#include "experiments/record/row_sql.h"

namespace longhaul {
namespace {

std::vector<FileContent> AllContents(const std::string& plan_text, const std::string& named_files) {
  std::vector<FileContent> contents = ReadContents(named_files);
  for (FileContent& frozen : FrozenContents(plan_text)) contents.push_back(std::move(frozen));
  return contents;
}

}  // namespace

std::string PlanSha256(const ExperimentRow& e) {
  const std::string files = FactOf(e.facts, kNamedFilesFact);
  return Sha256Hex(files.empty() ? e.plan_text : e.plan_text + "\n[files]\n" + files);
}

// An older experiment of this plan, which has no list of files, is gone on with.
absl::StatusOr<std::optional<int64_t>> Record::FindPlan(const ExperimentRow& e) const {
  if (e.plan_text.empty()) return std::optional<int64_t>();
  const std::string promise = PlanWithoutFrozen(e.plan_text),
                    files = FactOf(e.facts, kNamedFilesFact);
  const std::vector<FileContent> here = AllContents(e.plan_text, files);
  SqliteStatement query(
      db_.get(),
      "SELECT e.id, e.plan_text, COALESCE(f.value, ''),"
      " (SELECT COUNT(*) FROM runs AS r WHERE r.experiment_id = e.id) FROM experiments AS e"
      " LEFT JOIN experiment_facts AS f ON f.experiment_id = e.id AND f.key = ?"
      " WHERE e.kind = ? AND e.name = ? ORDER BY e.id");
  query.Bind(std::string(kNamedFilesFact)).Bind(std::string(ToString(e.kind))).Bind(e.name);
  std::optional<int64_t> same;
  absl::StatusOr<bool> row = query.Step();
  for (; row.ok() && *row; row = query.Step()) {
    const std::string plan = query.Text(1), theirs = query.Text(2);
    if (PlanWithoutFrozen(plan) != promise) continue;
    const std::string conflict = ContentConflict(AllContents(plan, theirs), here);
    if (!conflict.empty() && query.Integer(3) > 0) {
      return absl::FailedPreconditionError(fmt::format(
          "{}/{} has {} runs of this plan ('{}') with another content of {}; runs of other files "
          "are not mixed: put the files back, or name another folder for the record",
          folder_, kRecordFile, query.Integer(3), e.name, conflict));
    }
    const bool one_list = theirs == files || theirs.empty() || files.empty();
    if (conflict.empty() && plan == e.plan_text && one_list) same = query.Integer(0);
  }
  if (!row.ok()) return row.status();
  return same;
}

absl::StatusOr<int64_t> Record::AddPlan(const ExperimentRow& e) {
  const std::string kind = std::string(ToString(e.kind)), hash = PlanSha256(e);
  SqliteStatement insert(db_.get(),
                         "INSERT INTO experiments (kind, name, question, plan_text, plan_sha256,"
                         " d0_tokens, begun_utc) VALUES (?,?,?,?,?,?,?)"
                         " ON CONFLICT (kind, plan_sha256, name) DO NOTHING");
  insert.Bind(kind).Bind(e.name).Bind(e.question).Bind(e.plan_text).Bind(hash).Bind(e.d0_tokens);
  RETURN_IF_ERROR(insert.Bind(UtcNow()).Done());
  SqliteStatement find(
      db_.get(), "SELECT id FROM experiments WHERE kind = ? AND plan_sha256 = ? AND name = ?");
  RETURN_IF_ERROR(find.Bind(kind).Bind(hash).Bind(e.name).Step().status());
  return find.Integer(0);
}

absl::StatusOr<int64_t> Record::BeginExperiment(const ExperimentRow& e) {
  ASSIGN_OR_RETURN(const std::optional<int64_t> found, FindPlan(e));
  ASSIGN_OR_RETURN(const int64_t id, found ? absl::StatusOr<int64_t>(*found) : AddPlan(e));
  for (const auto& [key, value] : e.facts) {
    if (found && key == kNamedFilesFact) continue;  // of the plan's hash: as they were
    SqliteStatement fact(db_.get(),
                         "INSERT OR IGNORE INTO experiment_facts (experiment_id, key, value)"
                         " VALUES (?,?,?)");
    RETURN_IF_ERROR(fact.Bind(id).Bind(key).Bind(value).Done());
  }
  return id;
}

namespace {

// What the row of an ended run and its crossings need at most, in frames of the write-ahead log.
constexpr int64_t kReserveBytes = int64_t{48} << 10;

std::string DiedReason(int64_t pid, const std::string& host) {
  return fmt::format("process {} on {} died without a word", pid, host);
}

}  // namespace

absl::StatusOr<int64_t> Record::InsertRun(const RunRow& r) {
  RunRow row = r;
  row.pid = getpid();
  row.begun_utc = UtcNow();
  row.status = RunStatus::kRunning;
  // SQLite numbers the row, and NULL is the end of a run that goes on.
  const auto each = [&row](auto visit) {
    VisitFields(row, [&visit](std::string_view name, auto& field) {
      if (name != "id" && name != "finished_utc") visit(name, field);
    });
  };
  std::string columns, marks;
  each([&](std::string_view name, auto&) {
    columns += fmt::format("{}{}", columns.empty() ? "" : ", ", name);
    marks += marks.empty() ? "?" : ",?";
  });
  SqliteStatement insert(db_.get(),
                         fmt::format("INSERT INTO runs ({}) VALUES ({})", columns, marks).c_str());
  each([&insert](std::string_view, auto& field) { row_sql::Out(insert, field); });
  RETURN_IF_ERROR(insert.Done());
  const int64_t run = sqlite3_last_insert_rowid(db_.get());
  std::map<std::string, std::string> facts = r.facts;
  ASSIGN_OR_RETURN(int64_t attempt, Attempt(run));
  facts[kAttemptFact] = fmt::format("{}", attempt);
  RETURN_IF_ERROR(InsertFacts(run, facts));
  return run;
}

// 1 for the first row of an arm and seed.
absl::StatusOr<int64_t> Record::Attempt(int64_t run) const {
  SqliteStatement count(
      db_.get(),
      "SELECT COUNT(*) FROM runs AS r JOIN runs AS mine ON mine.id = ? WHERE r.id <= mine.id AND"
      " r.experiment_id = mine.experiment_id AND r.arm = mine.arm AND r.seed = mine.seed");
  RETURN_IF_ERROR(count.Bind(run).Step().status());
  return count.Integer(0);
}

absl::StatusOr<int64_t> Record::BeginRun(const RunRow& row) {
  RETURN_IF_ERROR(reserve_.Take(folder_, kReserveBytes));
  ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(db_.get()));
  ASSIGN_OR_RETURN(int64_t run, InsertRun(row));
  // Locked before the row can be seen: nobody may take it for a dead one.
  RETURN_IF_ERROR(Lock(run));
  if (absl::Status s = transaction.Commit(); !s.ok()) {
    Unlock(run);
    return s;
  }
  return run;
}

absl::StatusOr<Claim> Record::LookUpClaim(int64_t experiment, const std::string& arm,
                                          int64_t seed) const {
  SqliteStatement taken(db_.get(),
                        "SELECT id, status, pid, host, begun_utc FROM runs WHERE experiment_id = ?"
                        " AND arm = ? AND seed = ? AND status IN ('running', 'ok', 'diverged')");
  taken.Bind(experiment).Bind(arm).Bind(seed);
  absl::StatusOr<bool> found = taken.Step();
  for (; found.ok() && *found; found = taken.Step()) {
    const int64_t run = taken.Integer(0);
    if (taken.Text(1) != "running") return Claim{Claim::Outcome::kFinished, run, ""};
    if (!SomeoneWrites(run)) continue;  // its process died: the claim is void
    return Claim{
        Claim::Outcome::kElsewhere, run,
        fmt::format("process {} on {} since {}", taken.Integer(2), taken.Text(3), taken.Text(4))};
  }
  if (!found.ok()) return found.status();
  return Claim{Claim::Outcome::kMine, 0, ""};
}

absl::StatusOr<Claim> Record::ClaimRun(const RunRow& row) {
  RETURN_IF_ERROR(reserve_.Take(folder_, kReserveBytes));
  // From here to the commit no other process can claim.
  ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(db_.get()));
  absl::StatusOr<Claim> claim = LookUpClaim(row.experiment_id, row.arm, row.seed);
  if (!claim.ok() || claim->outcome != Claim::Outcome::kMine) return claim;
  ASSIGN_OR_RETURN(int64_t run, InsertRun(row));
  RETURN_IF_ERROR(Lock(run));
  if (absl::Status s = transaction.Commit(); !s.ok()) {
    Unlock(run);
    return s;
  }
  claim->run = run;
  return claim;
}

absl::Status Record::FinishRun(int64_t run, RunStatus status, const std::string& reason) {
  if (status == RunStatus::kRunning || status == RunStatus::kDied) {
    return absl::InvalidArgumentError(fmt::format("a run cannot finish as {}", ToString(status)));
  }
  absl::Status written;
  do {
    SqliteStatement update(db_.get(),
                           "UPDATE runs SET status = ?, reason = ?, finished_utc = ?"
                           " WHERE id = ? AND status = 'running'");
    update.Bind(std::string(ToString(status))).Bind(reason).Bind(UtcNow()).Bind(run);
    written = update.Done();
  } while (absl::IsResourceExhausted(written) && reserve_.Release());
  if (!written.ok()) return written;
  if (sqlite3_changes(db_.get()) == 0) {
    return absl::FailedPreconditionError(fmt::format("run {} of {} is not running", run, folder_));
  }
  Unlock(run);
  return absl::OkStatus();
}

absl::Status Record::ResumeRun(int64_t run) {
  RETURN_IF_ERROR(reserve_.Take(folder_, kReserveBytes));
  RETURN_IF_ERROR(Lock(run));
  SqliteStatement update(db_.get(),
                         "UPDATE runs SET status = 'running', reason = '', finished_utc = NULL,"
                         " pid = ? WHERE id = ?"
                         " AND status IN ('running', 'interrupted', 'failed', 'invalid')");
  absl::Status updated = update.Bind(int64_t{getpid()}).Bind(run).Done();
  if (updated.ok() && sqlite3_changes(db_.get()) == 0) {
    updated = absl::FailedPreconditionError(
        fmt::format("run {} of {} is not there or has ended: nothing to resume", run, folder_));
  }
  if (!updated.ok()) Unlock(run);
  return updated;
}

absl::StatusOr<int> Record::SettleDeadRuns() {
  std::vector<std::pair<int64_t, std::string>> dead;
  {
    SqliteStatement running(db_.get(), "SELECT id, host, pid FROM runs WHERE status = 'running'");
    while (true) {
      ASSIGN_OR_RETURN(bool row, running.Step());
      if (!row) break;
      const int64_t run = running.Integer(0);
      if (SomeoneWrites(run)) continue;
      dead.emplace_back(run, DiedReason(running.Integer(2), running.Text(1)));
    }
  }
  int settled = 0;
  for (const auto& [run, reason] : dead) {
    if (!Lock(run).ok()) continue;  // somebody has just resumed it
    const absl::Status finished = FinishRun(run, RunStatus::kInterrupted, reason);
    if (!finished.ok()) {
      Unlock(run);
      return finished;
    }
    ++settled;
  }
  return settled;
}

std::string UtcNow() {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone());
}

absl::StatusOr<OpenedExperiment> OpenExperiment(const std::string& folder,
                                                const ExperimentRow& experiment) {
  ASSIGN_OR_RETURN(Record record, Record::Open(folder, Record::Mode::kWrite));
  if (const auto settled = record.SettleDeadRuns(); !settled.ok()) return settled.status();
  ASSIGN_OR_RETURN(const int64_t id, record.BeginExperiment(experiment));
  return OpenedExperiment{std::move(record), id};
}

}  // namespace longhaul
