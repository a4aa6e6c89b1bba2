// Rows into the database.
#include <fmt/format.h>

#include "experiments/record/record.h"

namespace longhaul {
namespace {

std::string Hex(uint64_t hash) { return fmt::format("{:016x}", hash); }

// One transaction around `insert_row` of every row.
template <typename Row, typename InsertRow>
absl::Status InsertAll(sqlite3* db, const char* sql, std::span<const Row> rows,
                       InsertRow insert_row) {
  absl::StatusOr<SqliteTransaction> transaction = SqliteTransaction::Begin(db);
  if (!transaction.ok()) return transaction.status();
  {
    SqliteStatement insert(db, sql);
    for (const Row& row : rows) {
      insert_row(insert, row);
      if (absl::Status s = insert.Done(); !s.ok()) return s;
    }
  }
  return transaction->Commit();
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
  return InsertAll(
      db_.get(),
      "INSERT OR REPLACE INTO steps (run_id, step, group_index, stage, loss_nat, tokens, wall_s,"
      " forward_s, backward_s, optimizer_s, wait_s, outer_s, encode_s, decode_s, outer_synced,"
      " outer_sent_bytes, parameter_hash) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
      steps, [run](SqliteStatement& q, const StepRow& s) {
        q.Bind(run).Bind(s.step).Bind(s.group_index).Bind(s.stage).Bind(s.loss_nat).Bind(s.tokens);
        q.Bind(s.wall_s).Bind(s.forward_s).Bind(s.backward_s).Bind(s.optimizer_s).Bind(s.wait_s);
        q.Bind(s.outer_s).Bind(s.encode_s).Bind(s.decode_s).Bind(int64_t{s.outer_synced});
        q.Bind(s.outer_sent_bytes).Bind(Hex(s.parameter_hash));
      });
}

absl::Status Record::AddLinks(int64_t run, std::span<const LinkRow> links) {
  return InsertAll(
      db_.get(),
      "INSERT OR REPLACE INTO links (run_id, phase, src_node, dst_node, nominal_rate_bit_per_s,"
      " nominal_rtt_s, rtt_min_s, rtt_median_s, rtt_p99_s, nominal_goodput_bit_per_s,"
      " goodput_bit_per_s, nominal_loss_prob, probes_sent, probes_received, packets, bytes,"
      " queue_drops, loss_drops, ok, why) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
      links, [run](SqliteStatement& q, const LinkRow& l) {
        q.Bind(run).Bind(std::string(l.phase == LinkPhase::kBefore ? "before" : "after"));
        q.Bind(l.src_node).Bind(l.dst_node).Bind(l.nominal_rate_bit_per_s).Bind(l.nominal_rtt_s);
        q.Bind(l.rtt_min_s).Bind(l.rtt_median_s).Bind(l.rtt_p99_s);
        q.Bind(l.nominal_goodput_bit_per_s).Bind(l.goodput_bit_per_s).Bind(l.nominal_loss_prob);
        q.Bind(l.probes_sent).Bind(l.probes_received).Bind(l.packets).Bind(l.bytes);
        q.Bind(l.queue_drops).Bind(l.loss_drops).Bind(int64_t{l.ok}).Bind(l.why);
      });
}

absl::Status Record::AddCrossings(int64_t run, std::span<const CrossingRow> crossings) {
  return InsertAll(
      db_.get(),
      "INSERT OR REPLACE INTO crossings (run_id, src_rank, dst_rank, direction, codec, tensors,"
      " elements, predicted_wire_bytes, payload_bytes, message_bytes, kernel_tx_bytes,"
      " kernel_rx_bytes, nmse_samples, nmse_mean, nmse_max, encode_s, decode_s, payload_hash)"
      " VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
      crossings, [run](SqliteStatement& q, const CrossingRow& c) {
        q.Bind(run).Bind(c.src_rank).Bind(c.dst_rank).Bind(std::string(ToString(c.direction)));
        q.Bind(c.codec).Bind(c.tensors).Bind(c.elements).Bind(c.predicted_wire_bytes);
        q.Bind(c.payload_bytes).Bind(c.message_bytes).Bind(c.kernel_tx_bytes);
        q.Bind(c.kernel_rx_bytes).Bind(c.nmse_samples).Bind(c.nmse_mean).Bind(c.nmse_max);
        q.Bind(c.encode_s).Bind(c.decode_s).Bind(Hex(c.payload_hash));
      });
}

absl::Status Record::AddCheckpointCrossings(int64_t run, int64_t step,
                                            std::span<const CrossingRow> crossings) {
  return InsertAll(
      db_.get(),
      "INSERT OR REPLACE INTO checkpoint_crossings (run_id, step, src_rank, dst_rank, direction,"
      " codec, tensors, elements, payload_bytes, message_bytes, kernel_tx_bytes, kernel_rx_bytes,"
      " nmse_samples, nmse_mean, nmse_max, encode_s, decode_s, payload_hash)"
      " VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
      crossings, [run, step](SqliteStatement& q, const CrossingRow& c) {
        q.Bind(run).Bind(step).Bind(c.src_rank).Bind(c.dst_rank);
        q.Bind(std::string(ToString(c.direction))).Bind(c.codec).Bind(c.tensors).Bind(c.elements);
        q.Bind(c.payload_bytes).Bind(c.message_bytes).Bind(c.kernel_tx_bytes);
        q.Bind(c.kernel_rx_bytes).Bind(c.nmse_samples).Bind(c.nmse_mean).Bind(c.nmse_max);
        q.Bind(c.encode_s).Bind(c.decode_s).Bind(Hex(c.payload_hash));
      });
}

absl::Status Record::AddCrossingErrors(int64_t run, std::span<const CrossingErrorRow> errors) {
  return InsertAll(
      db_.get(),
      "INSERT INTO crossing_errors (run_id, src_rank, dst_rank, percent, first_step, last_step,"
      " samples, nmse_mean, nmse_p95) VALUES (?,?,?,?,?,?,?,?,?)"
      " ON CONFLICT (run_id, src_rank, dst_rank, percent) DO UPDATE SET"
      " first_step = excluded.first_step, last_step = excluded.last_step,"
      " samples = excluded.samples, nmse_mean = excluded.nmse_mean, nmse_p95 = excluded.nmse_p95"
      " WHERE excluded.samples >= samples",
      errors, [run](SqliteStatement& q, const CrossingErrorRow& e) {
        q.Bind(run).Bind(e.src_rank).Bind(e.dst_rank).Bind(e.percent).Bind(e.first_step);
        q.Bind(e.last_step).Bind(e.samples).Bind(e.nmse_mean).Bind(e.nmse_p95);
      });
}

absl::Status Record::AddEvaluation(int64_t run, const EvaluationRow& evaluation) {
  return InsertAll(db_.get(),
                   "INSERT OR REPLACE INTO evaluations (run_id, step, codec, loss_nat,"
                   " standard_error_nat, tokens) VALUES (?,?,?,?,?,?)",
                   std::span<const EvaluationRow>(&evaluation, 1),
                   [run](SqliteStatement& q, const EvaluationRow& e) {
                     q.Bind(run).Bind(e.step).Bind(std::string(ToString(e.codec)));
                     q.Bind(e.loss_nat).Bind(e.standard_error_nat).Bind(e.tokens);
                   });
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
