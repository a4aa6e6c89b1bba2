// One record taken into another: the runs of many machines at one place.
#include <array>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/status_macros.h"
#include "experiments/record/record.h"
#include "experiments/record/row_fields.h"

namespace longhaul {
namespace {

#define LONGHAUL_TABLE(Row) kTable<Row>.name,
constexpr std::string_view kRunTables[] = {"run_facts", LONGHAUL_FOR_EACH_RUN_ROW(LONGHAUL_TABLE)};
constexpr std::string_view kEnded = "('ok', 'partial', 'diverged', 'failed', 'invalid')";

// Columns of a table here, but one; later tables of a version may be missing over there.
absl::StatusOr<std::vector<std::string>> Columns(sqlite3* db, std::string_view schema,
                                                 std::string_view table, std::string_view but) {
  SqliteStatement query(db, fmt::format("PRAGMA {}.table_info({})", schema, table).c_str());
  std::vector<std::string> names;
  absl::StatusOr<bool> row = query.Step();
  for (; row.ok() && *row; row = query.Step()) {
    if (query.Text(1) != but) names.push_back(query.Text(1));
  }
  if (!row.ok()) return row.status();
  return names;
}

// Rows of one run under its new id.
absl::Status CopyRows(sqlite3* db, std::string_view table, int64_t from, int64_t to) {
  ASSIGN_OR_RETURN(const auto columns, Columns(db, "other", table, "run_id"));
  if (columns.empty()) return absl::OkStatus();
  const std::string list = fmt::format("{}", fmt::join(columns, ", "));
  return SqliteExecute(db, fmt::format("INSERT INTO main.{0} (run_id, {1}) SELECT {2}, {1} FROM "
                                       "other.{0} WHERE run_id = {3}",
                                       table, list, to, from));
}

absl::StatusOr<int64_t> CopyRun(sqlite3* db, int64_t from, int64_t experiment) {
  ASSIGN_OR_RETURN(const auto columns, Columns(db, "other", "runs", "id"));
  std::vector<std::string> values = columns;
  for (std::string& value : values) {
    if (value == "experiment_id") value = fmt::format("{}", experiment);
  }
  RETURN_IF_ERROR(SqliteExecute(
      db, fmt::format("INSERT INTO main.runs ({}) SELECT {} FROM other.runs WHERE id = {}",
                      fmt::join(columns, ", "), fmt::join(values, ", "), from)));
  const int64_t to = sqlite3_last_insert_rowid(db);
  for (const std::string_view table : kRunTables) {
    RETURN_IF_ERROR(CopyRows(db, table, from, to));
  }
  return to;
}

absl::StatusOr<bool> Any(SqliteStatement& query) { return query.Step(); }

// By its own id; a record of before it had one, by who began it when.
absl::StatusOr<bool> HasRun(sqlite3* db, int64_t run, int64_t experiment) {
  SqliteStatement query(
      db,
      "SELECT 1 FROM main.runs AS mine JOIN other.runs AS theirs ON theirs.id = ?"
      " LEFT JOIN main.run_facts AS a ON a.run_id = mine.id AND a.key = 'run_id'"
      " LEFT JOIN other.run_facts AS b ON b.run_id = theirs.id AND b.key = 'run_id'"
      " WHERE mine.experiment_id = ? AND mine.arm = theirs.arm AND mine.seed = theirs.seed"
      " AND ((a.value IS NOT NULL AND a.value = b.value) OR (a.value IS NULL AND b.value IS NULL"
      " AND mine.begun_utc = theirs.begun_utc AND mine.host = theirs.host"
      " AND mine.pid = theirs.pid))");
  query.Bind(run).Bind(experiment);
  return Any(query);
}

// An arm and seed that need no further run.
absl::StatusOr<bool> HasOutcome(sqlite3* db, int64_t run, int64_t experiment) {
  SqliteStatement query(
      db,
      "SELECT 1 FROM main.runs AS mine JOIN other.runs AS theirs ON theirs.id = ?"
      " WHERE mine.experiment_id = ? AND mine.arm = theirs.arm AND mine.seed = theirs.seed"
      " AND mine.status IN ('ok', 'diverged')");
  query.Bind(run).Bind(experiment);
  return Any(query);
}

struct TheirRun {
  int64_t id;
  bool ended;
};

absl::StatusOr<std::vector<TheirRun>> TheirRuns(sqlite3* db, int64_t experiment) {
  SqliteStatement query(
      db, fmt::format("SELECT id, status IN {} FROM other.runs WHERE experiment_id = ? ORDER BY id",
                      kEnded)
              .c_str());
  query.Bind(experiment);
  std::vector<TheirRun> runs;
  absl::StatusOr<bool> row = query.Step();
  for (; row.ok() && *row; row = query.Step()) {
    runs.push_back({query.Integer(0), query.Integer(1) == 1});
  }
  if (!row.ok()) return row.status();
  return runs;
}

absl::Status TakeRuns(sqlite3* db, int64_t theirs, int64_t mine, Record::Taken& taken) {
  ASSIGN_OR_RETURN(const auto runs, TheirRuns(db, theirs));
  for (const TheirRun& run : runs) {
    if (!run.ended) {
      ++taken.open;
      continue;
    }
    const absl::StatusOr<bool> known = HasRun(db, run.id, mine);
    if (!known.ok()) return known.status();
    ASSIGN_OR_RETURN(const bool outcome, *known ? known : HasOutcome(db, run.id, mine));
    if (outcome) {
      ++(*known ? taken.known : taken.again);
      continue;
    }
    if (const auto copied = CopyRun(db, run.id, mine); !copied.ok()) return copied.status();
    ++taken.runs;
  }
  return absl::OkStatus();
}

class Attached {
 public:
  static absl::StatusOr<Attached> To(sqlite3* db, const std::string& file) {
    SqliteStatement attach(db, "ATTACH DATABASE ? AS other");
    RETURN_IF_ERROR(attach.Bind(file).Done());
    return Attached(db);
  }
  Attached(Attached&& other) noexcept : db_(std::exchange(other.db_, nullptr)) {}
  ~Attached() {
    if (db_ != nullptr) SqliteExecute(db_, "DETACH DATABASE other").IgnoreError();
  }

 private:
  explicit Attached(sqlite3* db) : db_(db) {}
  sqlite3* db_;
};

}  // namespace

absl::StatusOr<Record::Taken> Record::TakeFrom(const Record& other) {
  ASSIGN_OR_RETURN(const auto experiments, other.Experiments());
  ASSIGN_OR_RETURN(const Attached attached,
                   Attached::To(db_.get(), other.folder_ + "/" + kRecordFile));
  ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(db_.get()));
  Taken taken;
  for (const ExperimentRow& theirs : experiments) {
    ASSIGN_OR_RETURN(const int64_t mine, BeginExperiment(theirs));
    RETURN_IF_ERROR(TakeRuns(db_.get(), theirs.id, mine, taken));
  }
  RETURN_IF_ERROR(transaction.Commit());
  return taken;
}

}  // namespace longhaul
