// Rows out of the database.
#include <cstdlib>
#include <iterator>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "experiments/record/record.h"
#include "experiments/record/row_sql.h"

namespace longhaul {
namespace {

// Every row of `query`, made by `make`.
template <typename Row, typename Make>
absl::StatusOr<std::vector<Row>> Collect(SqliteStatement& query, Make make) {
  std::vector<Row> rows;
  while (true) {
    ASSIGN_OR_RETURN(bool row, query.Step());
    if (!row) return rows;
    rows.push_back(make(query));
  }
}

// The first records of this version lack some tables; who writes into one adds them.
absl::StatusOr<bool> HasTable(sqlite3* db, const std::string& name) {
  SqliteStatement table(db, "SELECT 1 FROM sqlite_master WHERE name = ?");
  return table.Bind(name).Step();
}

template <typename Row>
absl::StatusOr<std::vector<Row>> SelectRows(sqlite3* db, int64_t owner) {
  SqliteStatement query(db, SelectSql<Row>().c_str());
  query.Bind(owner);
  return Collect<Row>(query, ReadRow<Row>);
}

absl::Status AddExperimentFacts(sqlite3* db, std::vector<ExperimentRow>& experiments) {
  const absl::StatusOr<bool> there = HasTable(db, "experiment_facts");
  if (!there.ok() || !*there) return there.status();
  SqliteStatement query(db, "SELECT experiment_id, key, value FROM experiment_facts");
  while (true) {
    const absl::StatusOr<bool> row = query.Step();
    if (!row.ok() || !*row) return row.status();
    for (ExperimentRow& e : experiments) {
      if (e.id == query.Integer(0)) e.facts[query.Text(1)] = query.Text(2);
    }
  }
}

}  // namespace

absl::StatusOr<std::vector<ExperimentRow>> Record::Experiments() const {
  SqliteStatement query(db_.get(),
                        "SELECT id, kind, name, question, plan_text, plan_sha256, d0_tokens,"
                        " begun_utc FROM experiments ORDER BY id");
  ASSIGN_OR_RETURN(auto experiments, Collect<ExperimentRow>(query, [](SqliteStatement& q) {
                     return ExperimentRow{.id = q.Integer(0),
                                          .kind = FromWord<ExperimentKind>(q.Text(1)),
                                          .name = q.Text(2),
                                          .question = q.Text(3),
                                          .plan_text = q.Text(4),
                                          .plan_sha256 = q.Text(5),
                                          .d0_tokens = q.MaybeInteger(6),
                                          .begun_utc = q.Text(7)};
                   }));
  RETURN_IF_ERROR(AddExperimentFacts(db_.get(), experiments));
  for (const ExperimentRow& e : experiments) {
    // Estimates are what the plan asked for: one that was edited afterwards asks for something else.
    if (const std::string hash = PlanSha256(e); hash != e.plan_sha256) {
      return absl::DataLossError(fmt::format(
          "{}: the plan of experiment {} ('{}') has SHA-256 {}, and {} was recorded when it began: "
          "the plan was changed or is damaged; take a copy of the record from before that",
          folder(), e.id, e.name, hash, e.plan_sha256));
    }
  }
  return experiments;
}

absl::StatusOr<std::vector<RunRow>> Record::Runs(int64_t experiment) const {
  return RunsWhere("experiment_id", experiment);
}

absl::StatusOr<RunRow> Record::Run(int64_t run) const {
  ASSIGN_OR_RETURN(std::vector<RunRow> runs, RunsWhere("id", run));
  if (runs.empty()) return absl::NotFoundError(fmt::format("{} has no run {}", folder_, run));
  return runs.front();
}

absl::StatusOr<std::vector<RunRow>> Record::RunsWhere(const std::string& column,
                                                      int64_t value) const {
  SqliteStatement query(db_.get(), fmt::format("SELECT {} FROM runs WHERE {} = ? ORDER BY id",
                                               ColumnList<RunRow>(), column)
                                       .c_str());
  query.Bind(value);
  ASSIGN_OR_RETURN(std::vector<RunRow> runs, Collect<RunRow>(query, ReadRow<RunRow>));
  for (RunRow& run : runs) {
    if (run.status == RunStatus::kRunning && !SomeoneWrites(run.id)) {
      run.status = RunStatus::kDied;
      run.reason = fmt::format("process {} on {} died without a word", run.pid, run.host);
    }
    SqliteStatement facts(db_.get(), "SELECT key, value FROM run_facts WHERE run_id = ?");
    facts.Bind(run.id);
    absl::StatusOr<bool> row = facts.Step();
    for (; row.ok() && *row; row = facts.Step()) run.facts[facts.Text(0)] = facts.Text(1);
    if (!row.ok()) return row.status();
  }
  return runs;
}

absl::StatusOr<std::set<std::pair<std::string, int64_t>>> Record::Finished(
    int64_t experiment) const {
  SqliteStatement query(db_.get(),
                        "SELECT DISTINCT arm, seed FROM runs WHERE experiment_id = ?"
                        " AND status IN ('ok', 'diverged')");
  query.Bind(experiment);
  using Key = std::pair<std::string, int64_t>;
  ASSIGN_OR_RETURN(std::vector<Key> keys, Collect<Key>(query, [](SqliteStatement& q) {
                     return Key(q.Text(0), q.Integer(1));
                   }));
  return std::set<Key>(keys.begin(), keys.end());
}

template <typename Row>
absl::StatusOr<std::vector<Row>> Record::RowsOf(int64_t run) const {
  if (kTable<Row>.later) {
    ASSIGN_OR_RETURN(const bool there, HasTable(db_.get(), std::string(kTable<Row>.name)));
    if (!there) return std::vector<Row>();
  }
  return SelectRows<Row>(db_.get(), run);
}

#define LONGHAUL_READS(Row) \
  template absl::StatusOr<std::vector<Row>> Record::RowsOf<Row>(int64_t run) const;
LONGHAUL_FOR_EACH_RUN_ROW(LONGHAUL_READS)

absl::StatusOr<StepCoverage> Record::Coverage(int64_t run, int64_t from, int64_t to) const {
  SqliteStatement query(db_.get(),
                        "SELECT COUNT(*), MIN(step), MAX(step) FROM steps"
                        " WHERE run_id = ? AND step BETWEEN ? AND ?");
  RETURN_IF_ERROR(query.Bind(run).Bind(from).Bind(to).Step().status());
  return StepCoverage{
      .rows = query.Integer(0), .first = query.Integer(1), .last = query.Integer(2)};
}

absl::StatusOr<std::optional<int64_t>> Record::RunWithFact(const std::string& key,
                                                           const std::string& value) const {
  SqliteStatement query(db_.get(),
                        "SELECT run_id FROM run_facts WHERE key = ? AND value = ?"
                        " ORDER BY run_id DESC");
  ASSIGN_OR_RETURN(bool row, query.Bind(key).Bind(value).Step());
  return row ? std::optional<int64_t>(query.Integer(0)) : std::nullopt;
}

absl::StatusOr<std::vector<CrossingRow>> Record::CheckpointCrossings(int64_t run,
                                                                     int64_t step) const {
  ASSIGN_OR_RETURN(std::vector<CheckpointCrossingRow> all, RowsOf<CheckpointCrossingRow>(run));
  std::vector<CrossingRow> rows;
  for (CheckpointCrossingRow& row : all) {
    if (row.step == step) rows.push_back(std::move(row.crossing));
  }
  return rows;
}

absl::StatusOr<std::vector<EstimateRow>> Record::Estimates(int64_t experiment) const {
  return SelectRows<EstimateRow>(db_.get(), experiment);
}

absl::StatusOr<std::vector<std::vector<std::string>>> Record::Rows(const std::string& sql) const {
  SqliteStatement query(db_.get(), sql.c_str());
  std::vector<std::string> names;
  for (int c = 0; c < query.columns(); ++c) names.push_back(query.ColumnName(c));
  absl::StatusOr<std::vector<std::vector<std::string>>> rows =
      Collect<std::vector<std::string>>(query, [](SqliteStatement& q) {
        std::vector<std::string> cells;
        for (int c = 0; c < q.columns(); ++c) cells.push_back(q.Text(c));
        return cells;
      });
  if (rows.ok()) rows->insert(rows->begin(), std::move(names));
  return rows;
}

}  // namespace longhaul
