// Rows out of the database.
#include <cstdlib>
#include <iterator>

#include <fmt/format.h>

#include "experiments/record/record.h"
#include "experiments/record/row_sql.h"

namespace longhaul {
namespace {

// The CHECK constraints of the schema allow no other text.
template <typename Enum>
Enum FromText(Enum last, const std::string& text) {
  for (size_t i = 0; i <= static_cast<size_t>(last); ++i) {
    if (ToString(static_cast<Enum>(i)) == text) return static_cast<Enum>(i);
  }
  std::abort();
}

// Every row of `query`, made by `make`.
template <typename Row, typename Make>
absl::StatusOr<std::vector<Row>> Collect(SqliteStatement& query, Make make) {
  std::vector<Row> rows;
  while (true) {
    absl::StatusOr<bool> row = query.Step();
    if (!row.ok()) return row.status();
    if (!*row) return rows;
    rows.push_back(make(query));
  }
}

RunRow MakeRun(SqliteStatement& q) {
  RunRow r;
  int c = 0;
  r.id = q.Integer(c++);
  r.experiment_id = q.Integer(c++);
  r.arm = q.Text(c++);
  r.role = FromText(Role::kSingle, q.Text(c++));
  r.budget_fraction = q.Real(c++);
  r.seed = q.Integer(c++);
  r.train_tokens = q.Integer(c++);
  r.stages = q.Integer(c++);
  r.groups = q.Integer(c++);
  for (std::string* text :
       {&r.forward_codec, &r.backward_codec, &r.profile, &r.spec_toml, &r.git_revision, &r.host,
        &r.kernel, &r.emulator, &r.congestion_control, &r.torch_version, &r.cpu, &r.isa}) {
    *text = q.Text(c++);
  }
  r.threads = q.Integer(c++);
  r.pid = q.Integer(c++);
  r.begun_utc = q.Text(c++);
  r.finished_utc = q.Text(c++);
  r.status = FromText(RunStatus::kDied, q.Text(c++));
  r.reason = q.Text(c++);
  return r;
}

// All rows of a run.
template <typename Row>
absl::StatusOr<std::vector<Row>> RowsOf(sqlite3* db, int64_t run, std::string_view table,
                                        std::string_view order) {
  SqliteStatement query(db, fmt::format("SELECT {} FROM {} WHERE run_id = ? ORDER BY {}",
                                        ColumnList<Row>(), table, order)
                                .c_str());
  query.Bind(run);
  return Collect<Row>(query, [](SqliteStatement& q) { return ReadRow<Row>(q); });
}

// The first records of this version lack some tables; who writes into one adds them.
absl::StatusOr<bool> HasTable(sqlite3* db, const std::string& name) {
  SqliteStatement table(db, "SELECT 1 FROM sqlite_master WHERE name = ?");
  return table.Bind(name).Step();
}

template <typename Row>
absl::StatusOr<std::vector<Row>> LaterRows(sqlite3* db, int64_t run, const std::string& table,
                                           std::string_view order) {
  const absl::StatusOr<bool> there = HasTable(db, table);
  if (!there.ok()) return there.status();
  if (!*there) return std::vector<Row>();
  return RowsOf<Row>(db, run, table, order);
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
  auto experiments = Collect<ExperimentRow>(query, [](SqliteStatement& q) {
    const bool run = q.Text(1) == "run";
    return ExperimentRow{.id = q.Integer(0),
                         .kind = run ? ExperimentKind::kRun : ExperimentKind::kCampaign,
                         .name = q.Text(2),
                         .question = q.Text(3),
                         .plan_text = q.Text(4),
                         .plan_sha256 = q.Text(5),
                         .d0_tokens = q.MaybeInteger(6),
                         .begun_utc = q.Text(7)};
  });
  if (!experiments.ok()) return experiments.status();
  if (absl::Status s = AddExperimentFacts(db_.get(), *experiments); !s.ok()) return s;
  for (const ExperimentRow& e : *experiments) {
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
  absl::StatusOr<std::vector<RunRow>> runs = RunsWhere("id", run);
  if (!runs.ok()) return runs.status();
  if (runs->empty()) return absl::NotFoundError(fmt::format("{} has no run {}", folder_, run));
  return runs->front();
}

absl::StatusOr<std::vector<RunRow>> Record::RunsWhere(const std::string& column,
                                                      int64_t value) const {
  const std::string sql =
      "SELECT id, experiment_id, arm, role, budget_fraction, seed, train_tokens, stages, groups,"
      " forward_codec, backward_codec, profile, spec_toml, git_revision, host, kernel, emulator,"
      " congestion_control, torch_version, cpu, isa, threads, pid, begun_utc, finished_utc,"
      " status, reason FROM runs WHERE " +
      column + " = ? ORDER BY id";
  SqliteStatement query(db_.get(), sql.c_str());
  query.Bind(value);
  absl::StatusOr<std::vector<RunRow>> runs = Collect<RunRow>(query, MakeRun);
  if (!runs.ok()) return runs.status();
  for (RunRow& run : *runs) {
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
  absl::StatusOr<std::vector<Key>> keys =
      Collect<Key>(query, [](SqliteStatement& q) { return Key(q.Text(0), q.Integer(1)); });
  if (!keys.ok()) return keys.status();
  return std::set<Key>(keys->begin(), keys->end());
}

absl::StatusOr<std::vector<StepRow>> Record::Steps(int64_t run) const {
  return RowsOf<StepRow>(db_.get(), run, "steps", "step, group_index, stage");
}

absl::StatusOr<std::vector<SimulatedRow>> Record::Simulated(int64_t run) const {
  return LaterRows<SimulatedRow>(db_.get(), run, "simulated_times", "step, group_index, stage");
}

absl::StatusOr<std::vector<RoundRow>> Record::Rounds(int64_t run) const {
  return LaterRows<RoundRow>(db_.get(), run, "rounds", "round");
}

absl::StatusOr<std::vector<FaultRow>> Record::Faults(int64_t run) const {
  return LaterRows<FaultRow>(db_.get(), run, "faults", "number");
}

absl::StatusOr<std::vector<CodecSwitchRow>> Record::CodecSwitches(int64_t run) const {
  return LaterRows<CodecSwitchRow>(db_.get(), run, "codec_switches",
                                   "step, group_index, boundary, direction DESC");
}

absl::StatusOr<StepCoverage> Record::Coverage(int64_t run, int64_t from, int64_t to) const {
  SqliteStatement query(db_.get(),
                        "SELECT COUNT(*), MIN(step), MAX(step) FROM steps"
                        " WHERE run_id = ? AND step BETWEEN ? AND ?");
  absl::StatusOr<bool> row = query.Bind(run).Bind(from).Bind(to).Step();
  if (!row.ok()) return row.status();
  return StepCoverage{
      .rows = query.Integer(0), .first = query.Integer(1), .last = query.Integer(2)};
}

absl::StatusOr<std::optional<int64_t>> Record::RunWithFact(const std::string& key,
                                                           const std::string& value) const {
  SqliteStatement query(db_.get(),
                        "SELECT run_id FROM run_facts WHERE key = ? AND value = ?"
                        " ORDER BY run_id DESC");
  absl::StatusOr<bool> row = query.Bind(key).Bind(value).Step();
  if (!row.ok()) return row.status();
  return *row ? std::optional<int64_t>(query.Integer(0)) : std::nullopt;
}

absl::StatusOr<std::vector<LinkRow>> Record::Links(int64_t run) const {
  return RowsOf<LinkRow>(db_.get(), run, "links", "phase DESC, src_node, dst_node");
}

absl::StatusOr<std::vector<CrossingRow>> Record::Crossings(int64_t run) const {
  return RowsOf<CrossingRow>(db_.get(), run, "crossings", "src_rank, dst_rank, direction");
}

absl::StatusOr<std::vector<CrossingRow>> Record::CheckpointCrossings(int64_t run,
                                                                     int64_t step) const {
  absl::StatusOr<std::vector<CheckpointCrossingRow>> all = RowsOf<CheckpointCrossingRow>(
      db_.get(), run, "checkpoint_crossings", "src_rank, dst_rank, direction");
  if (!all.ok()) return all.status();
  std::vector<CrossingRow> rows;
  for (CheckpointCrossingRow& row : *all) {
    if (row.step == step) rows.push_back(std::move(row.crossing));
  }
  return rows;
}

absl::StatusOr<std::vector<CrossingErrorRow>> Record::CrossingErrors(int64_t run) const {
  return LaterRows<CrossingErrorRow>(db_.get(), run, "crossing_errors",
                                     "src_rank, dst_rank, percent");
}

absl::StatusOr<std::vector<EvaluationRow>> Record::Evaluations(int64_t run) const {
  return RowsOf<EvaluationRow>(db_.get(), run, "evaluations", "step, codec");
}

absl::StatusOr<std::vector<EstimateRow>> Record::Estimates(int64_t experiment) const {
  SqliteStatement query(db_.get(),
                        "SELECT arm, evaluation, quantity, unit, value, low, high, level, method,"
                        " seeds, note FROM estimates WHERE experiment_id = ?");
  query.Bind(experiment);
  return Collect<EstimateRow>(query, [](SqliteStatement& q) {
    return EstimateRow{.arm = q.Text(0),
                       .evaluation = q.Text(1),
                       .quantity = q.Text(2),
                       .unit = q.Text(3),
                       .value = q.MaybeReal(4),
                       .low = q.MaybeReal(5),
                       .high = q.MaybeReal(6),
                       .level = q.MaybeReal(7),
                       .method = q.Text(8),
                       .seeds = q.Integer(9),
                       .note = q.Text(10)};
  });
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
