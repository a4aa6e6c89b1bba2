// Rows into the database.
#include "base/status_macros.h"
#include "experiments/record/record.h"
#include "experiments/record/row_sql.h"

namespace longhaul {
namespace {

template <typename Row>
absl::Status InsertRows(sqlite3* db, int64_t owner, std::span<const Row> rows) {
  SqliteStatement insert(db, InsertSql<Row>().c_str());
  for (const Row& row : rows) {
    BindRow(insert, owner, row);
    RETURN_IF_ERROR(insert.Done());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Record::InsertFacts(int64_t run, const std::map<std::string, std::string>& facts) {
  SqliteStatement insert(db_.get(),
                         "INSERT OR REPLACE INTO run_facts (run_id, key, value) VALUES (?,?,?)");
  for (const auto& [key, value] : facts) {
    RETURN_IF_ERROR(insert.Bind(run).Bind(key).Bind(value).Done());
  }
  return absl::OkStatus();
}

absl::Status Record::SetLab(int64_t run, const std::string& emulator,
                            const std::string& congestion_control) {
  SqliteStatement update(db_.get(),
                         "UPDATE runs SET emulator = ?, congestion_control = ? WHERE id = ?");
  return update.Bind(emulator).Bind(congestion_control).Bind(run).Done();
}

absl::Status Record::AddFacts(int64_t run, const std::map<std::string, std::string>& facts) {
  ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(db_.get()));
  RETURN_IF_ERROR(InsertFacts(run, facts));
  return transaction.Commit();
}

template <typename Row>
absl::Status Record::Add(int64_t run, std::span<const Row> rows) {
  ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(db_.get()));
  RETURN_IF_ERROR(InsertRows(db_.get(), run, rows));
  return transaction.Commit();
}

absl::Status Record::AddCheckpointCrossings(int64_t run, int64_t step,
                                            std::span<const CrossingRow> crossings) {
  std::vector<CheckpointCrossingRow> rows;
  for (const CrossingRow& c : crossings) rows.push_back({.step = step, .crossing = c});
  return Add(run, rows);
}

absl::Status Record::SetEstimates(int64_t experiment, std::span<const EstimateRow> estimates) {
  ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(db_.get()));
  SqliteStatement clear(db_.get(), "DELETE FROM estimates WHERE experiment_id = ?");
  RETURN_IF_ERROR(clear.Bind(experiment).Done());
  RETURN_IF_ERROR(InsertRows(db_.get(), experiment, estimates));
  return transaction.Commit();
}

#define LONGHAUL_ADDS(Row) \
  template absl::Status Record::Add<Row>(int64_t run, std::span<const Row> rows);
LONGHAUL_FOR_EACH_RUN_ROW(LONGHAUL_ADDS)

}  // namespace longhaul
