// Rows into the database.
#include <fmt/format.h>

#include "experiments/record/record.h"
#include "experiments/record/row_sql.h"

namespace longhaul {
namespace {

// One transaction around `insert_row` of every row.
template <typename Row, typename InsertRow>
absl::Status InsertAll(sqlite3* db, const std::string& sql, std::span<const Row> rows,
                       InsertRow insert_row) {
  absl::StatusOr<SqliteTransaction> transaction = SqliteTransaction::Begin(db);
  if (!transaction.ok()) return transaction.status();
  {
    SqliteStatement insert(db, sql.c_str());
    for (const Row& row : rows) {
      insert_row(insert, row);
      if (absl::Status s = insert.Done(); !s.ok()) return s;
    }
  }
  return transaction->Commit();
}

// Rows of a run; those of equal keys are replaced.
template <typename Row>
absl::Status ReplaceRows(sqlite3* db, int64_t run, std::string_view table,
                         std::span<const Row> rows) {
  return InsertAll(db, "INSERT OR REPLACE " + InsertInto<Row>(table), rows,
                   [run](SqliteStatement& q, const Row& row) { BindRow(q, run, row); });
}

}  // namespace

absl::Status Record::InsertFacts(int64_t run, const std::map<std::string, std::string>& facts) {
  SqliteStatement insert(db_.get(),
                         "INSERT OR REPLACE INTO run_facts (run_id, key, value) VALUES (?,?,?)");
  for (const auto& [key, value] : facts) {
    if (absl::Status s = insert.Bind(run).Bind(key).Bind(value).Done(); !s.ok()) return s;
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
  absl::StatusOr<SqliteTransaction> transaction = SqliteTransaction::Begin(db_.get());
  if (!transaction.ok()) return transaction.status();
  if (absl::Status s = InsertFacts(run, facts); !s.ok()) return s;
  return transaction->Commit();
}

absl::Status Record::AddSteps(int64_t run, std::span<const StepRow> steps) {
  return ReplaceRows(db_.get(), run, "steps", steps);
}

absl::Status Record::AddSimulated(int64_t run, std::span<const SimulatedRow> times) {
  return ReplaceRows(db_.get(), run, "simulated_times", times);
}

absl::Status Record::AddLinks(int64_t run, std::span<const LinkRow> links) {
  return ReplaceRows(db_.get(), run, "links", links);
}

absl::Status Record::AddRounds(int64_t run, std::span<const RoundRow> rounds) {
  return ReplaceRows(db_.get(), run, "rounds", rounds);
}

absl::Status Record::AddFaults(int64_t run, std::span<const FaultRow> faults) {
  return ReplaceRows(db_.get(), run, "faults", faults);
}

absl::Status Record::AddCodecSwitches(int64_t run, std::span<const CodecSwitchRow> switches) {
  return ReplaceRows(db_.get(), run, "codec_switches", switches);
}

absl::Status Record::AddCrossings(int64_t run, std::span<const CrossingRow> crossings) {
  return ReplaceRows(db_.get(), run, "crossings", crossings);
}

absl::Status Record::AddCheckpointCrossings(int64_t run, int64_t step,
                                            std::span<const CrossingRow> crossings) {
  std::vector<CheckpointCrossingRow> rows;
  for (const CrossingRow& c : crossings) rows.push_back({.step = step, .crossing = c});
  return ReplaceRows(db_.get(), run, "checkpoint_crossings",
                     std::span<const CheckpointCrossingRow>(rows));
}

absl::Status Record::AddCrossingErrors(int64_t run, std::span<const CrossingErrorRow> errors) {
  return InsertAll(
      db_.get(),
      "INSERT " + InsertInto<CrossingErrorRow>("crossing_errors") +
          " ON CONFLICT (run_id, src_rank, dst_rank, percent) DO UPDATE SET"
          " first_step = excluded.first_step, last_step = excluded.last_step,"
          " samples = excluded.samples, nmse_mean = excluded.nmse_mean,"
          " nmse_p95 = excluded.nmse_p95 WHERE excluded.samples >= samples",
      errors, [run](SqliteStatement& q, const CrossingErrorRow& row) { BindRow(q, run, row); });
}

absl::Status Record::AddEvaluation(int64_t run, const EvaluationRow& evaluation) {
  return ReplaceRows(db_.get(), run, "evaluations", std::span<const EvaluationRow>(&evaluation, 1));
}

absl::Status Record::SetEstimates(int64_t experiment, std::span<const EstimateRow> estimates) {
  absl::StatusOr<SqliteTransaction> transaction = SqliteTransaction::Begin(db_.get());
  if (!transaction.ok()) return transaction.status();
  SqliteStatement clear(db_.get(), "DELETE FROM estimates WHERE experiment_id = ?");
  if (absl::Status s = clear.Bind(experiment).Done(); !s.ok()) return s;
  SqliteStatement insert(db_.get(),
                         "INSERT INTO estimates (experiment_id, arm, evaluation, quantity, unit,"
                         " value, low, high, level, method, seeds, note)"
                         " VALUES (?,?,?,?,?,?,?,?,?,?,?,?)");
  for (const EstimateRow& e : estimates) {
    insert.Bind(experiment).Bind(e.arm).Bind(e.evaluation).Bind(e.quantity).Bind(e.unit);
    insert.Bind(e.value).Bind(e.low).Bind(e.high).Bind(e.level).Bind(e.method).Bind(e.seeds);
    if (absl::Status s = insert.Bind(e.note).Done(); !s.ok()) return s;
  }
  return transaction->Commit();
}

}  // namespace longhaul
