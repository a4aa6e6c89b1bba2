#pragma once

#include <concepts>
#include <string_view>
#include <type_traits>

#include "experiments/record/record_rows.h"

namespace longhaul {

// One list of fields per kind of row: a name is the column of schema.sql and the key of the event
// (row_json.h) at once, and the order is that of INSERT and SELECT (row_sql.h). A new figure is its
// field in record_rows.h, its line here and its column.
template <typename Row, typename Of>
concept RowOf = std::same_as<std::remove_const_t<Row>, Of>;

template <RowOf<StepRow> Row, typename Visit>
void VisitFields(Row& r, Visit&& visit) {
  visit("step", r.step);
  visit("group_index", r.group_index);
  visit("stage", r.stage);
  visit("loss_nat", r.loss_nat);
  visit("tokens", r.tokens);
  visit("wall_s", r.wall_s);
  visit("forward_s", r.forward_s);
  visit("backward_s", r.backward_s);
  visit("optimizer_s", r.optimizer_s);
  visit("wait_s", r.wait_s);
  visit("outer_s", r.outer_s);
  visit("encode_s", r.encode_s);
  visit("decode_s", r.decode_s);
  visit("outer_synced", r.outer_synced);
  visit("outer_sent_bytes", r.outer_sent_bytes);
  visit("parameter_hash", r.parameter_hash);
}

template <RowOf<SimulatedRow> Row, typename Visit>
void VisitFields(Row& r, Visit&& visit) {
  visit("step", r.step);
  visit("group_index", r.group_index);
  visit("stage", r.stage);
  visit("simulated_s", r.simulated_s);
  visit("message_bytes", r.message_bytes);
}

template <RowOf<LinkRow> Row, typename Visit>
void VisitFields(Row& r, Visit&& visit) {
  visit("phase", r.phase);
  visit("src_node", r.src_node);
  visit("dst_node", r.dst_node);
  visit("nominal_rate_bit_per_s", r.nominal_rate_bit_per_s);
  visit("nominal_rtt_s", r.nominal_rtt_s);
  visit("rtt_min_s", r.rtt_min_s);
  visit("rtt_median_s", r.rtt_median_s);
  visit("rtt_p99_s", r.rtt_p99_s);
  visit("nominal_goodput_bit_per_s", r.nominal_goodput_bit_per_s);
  visit("goodput_bit_per_s", r.goodput_bit_per_s);
  visit("nominal_loss_prob", r.nominal_loss_prob);
  visit("probes_sent", r.probes_sent);
  visit("probes_received", r.probes_received);
  visit("packets", r.packets);
  visit("bytes", r.bytes);
  visit("queue_drops", r.queue_drops);
  visit("loss_drops", r.loss_drops);
  visit("ok", r.ok);
  visit("why", r.why);
}

template <RowOf<CrossingRow> Row, typename Visit>
void VisitFields(Row& r, Visit&& visit) {
  visit("src_rank", r.src_rank);
  visit("dst_rank", r.dst_rank);
  visit("direction", r.direction);
  visit("codec", r.codec);
  visit("tensors", r.tensors);
  visit("elements", r.elements);
  visit("predicted_wire_bytes", r.predicted_wire_bytes);
  visit("payload_bytes", r.payload_bytes);
  visit("message_bytes", r.message_bytes);
  visit("kernel_tx_bytes", r.kernel_tx_bytes);
  visit("kernel_rx_bytes", r.kernel_rx_bytes);
  visit("nmse_samples", r.nmse_samples);
  visit("nmse_mean", r.nmse_mean);
  visit("nmse_max", r.nmse_max);
  visit("encode_s", r.encode_s);
  visit("decode_s", r.decode_s);
  visit("payload_hash", r.payload_hash);
}

// A row of checkpoint_crossings: `step`, and a crossing without its prediction, which is of a whole
// run.
struct CheckpointCrossingRow {
  int64_t step;
  CrossingRow crossing;
};

template <RowOf<CheckpointCrossingRow> Row, typename Visit>
void VisitFields(Row& r, Visit&& visit) {
  visit("step", r.step);
  VisitFields(r.crossing, [&visit](const char* name, auto& field) {
    if (std::string_view(name) != "predicted_wire_bytes") visit(name, field);
  });
}

template <RowOf<CodecSwitchRow> Row, typename Visit>
void VisitFields(Row& r, Visit&& visit) {
  visit("step", r.step);
  visit("group_index", r.group_index);
  visit("boundary", r.boundary);
  visit("direction", r.direction);
  visit("from_codec", r.from_codec);
  visit("to_codec", r.to_codec);
  visit("cause", r.cause);
}

template <RowOf<CrossingErrorRow> Row, typename Visit>
void VisitFields(Row& r, Visit&& visit) {
  visit("src_rank", r.src_rank);
  visit("dst_rank", r.dst_rank);
  visit("percent", r.percent);
  visit("first_step", r.first_step);
  visit("last_step", r.last_step);
  visit("samples", r.samples);
  visit("nmse_mean", r.nmse_mean);
  visit("nmse_p95", r.nmse_p95);
}

template <RowOf<EvaluationRow> Row, typename Visit>
void VisitFields(Row& r, Visit&& visit) {
  visit("step", r.step);
  visit("codec", r.codec);
  visit("loss_nat", r.loss_nat);
  visit("standard_error_nat", r.standard_error_nat);
  visit("tokens", r.tokens);
}

template <RowOf<RoundRow> Row, typename Visit>
void VisitFields(Row& r, Visit&& visit) {
  visit("round", r.round);
  visit("last_step", r.last_step);
  visit("members", r.members);
  visit("joiners", r.joiners);
  visit("lost", r.lost);
  visit("left_out", r.left_out);
  visit("attempts", r.attempts);
  visit("waited_s", r.waited_s);
}

template <RowOf<OuterDeltaRow> Row, typename Visit>
void VisitFields(Row& r, Visit&& visit) {
  visit("step", r.step);
  visit("group_index", r.group_index);
  visit("stage", r.stage);
  visit("fragment", r.fragment);
  visit("squared_norm", r.squared_norm);
  visit("last_squared_norm", r.last_squared_norm);
  visit("dot", r.dot);
  visit("member_norm", r.member_norm);
}

template <RowOf<FaultRow> Row, typename Visit>
void VisitFields(Row& r, Visit&& visit) {
  visit("number", r.number);
  visit("step", r.step);
  visit("what", r.what);
  visit("place", r.place);
  visit("group_index", r.group_index);
  visit("said", r.said);
  visit("lost_tokens", r.lost_tokens);
  visit("recovered_step", r.recovered_step);
  visit("recovery_s", r.recovery_s);
}

template <RowOf<EstimateRow> Row, typename Visit>
void VisitFields(Row& r, Visit&& visit) {
  visit("arm", r.arm);
  visit("evaluation", r.evaluation);
  visit("quantity", r.quantity);
  visit("unit", r.unit);
  visit("value", r.value);
  visit("low", r.low);
  visit("high", r.high);
  visit("level", r.level);
  visit("method", r.method);
  visit("seeds", r.seeds);
  visit("note", r.note);
}

template <RowOf<RunRow> Row, typename Visit>
void VisitFields(Row& r, Visit&& visit) {
  visit("id", r.id);
  visit("experiment_id", r.experiment_id);
  visit("arm", r.arm);
  visit("role", r.role);
  visit("budget_fraction", r.budget_fraction);
  visit("seed", r.seed);
  visit("train_tokens", r.train_tokens);
  visit("stages", r.stages);
  visit("groups", r.groups);
  visit("forward_codec", r.forward_codec);
  visit("backward_codec", r.backward_codec);
  visit("profile", r.profile);
  visit("spec_toml", r.spec_toml);
  visit("git_revision", r.git_revision);
  visit("host", r.host);
  visit("kernel", r.kernel);
  visit("emulator", r.emulator);
  visit("congestion_control", r.congestion_control);
  visit("torch_version", r.torch_version);
  visit("cpu", r.cpu);
  visit("isa", r.isa);
  visit("threads", r.threads);
  visit("pid", r.pid);
  visit("begun_utc", r.begun_utc);
  visit("finished_utc", r.finished_utc);
  visit("status", r.status);
  visit("reason", r.reason);
}

// Where the rows of a kind are kept.
struct RowTable {
  std::string_view name;
  std::string_view order;  // in which they are read
  bool later = false;      // records that were begun before it have no such table
  std::string_view insert = "INSERT OR REPLACE", on_conflict = "";
  std::string_view owner = "run_id";
};
template <typename Row>
inline constexpr RowTable kTable;
template <>
inline constexpr RowTable kTable<StepRow> = {"steps", "step, group_index, stage"};
template <>
inline constexpr RowTable kTable<LinkRow> = {"links", "phase DESC, src_node, dst_node"};
template <>
inline constexpr RowTable kTable<CrossingRow> = {"crossings", "src_rank, dst_rank, direction"};
template <>
inline constexpr RowTable kTable<CheckpointCrossingRow> = {"checkpoint_crossings",
                                                           "src_rank, dst_rank, direction"};
// Of a window that was left and entered again by a resumed run, the row of more samples stays.
template <>
inline constexpr RowTable kTable<CrossingErrorRow> = {
    "crossing_errors", "src_rank, dst_rank, percent", true, "INSERT",
    " ON CONFLICT (run_id, src_rank, dst_rank, percent) DO UPDATE SET"
    " first_step = excluded.first_step, last_step = excluded.last_step,"
    " samples = excluded.samples, nmse_mean = excluded.nmse_mean,"
    " nmse_p95 = excluded.nmse_p95 WHERE excluded.samples >= samples"};
template <>
inline constexpr RowTable kTable<EvaluationRow> = {"evaluations", "step, codec"};
template <>
inline constexpr RowTable kTable<RoundRow> = {"rounds", "round", true};
template <>
inline constexpr RowTable kTable<OuterDeltaRow> = {"outer_deltas",
                                                   "step, fragment, group_index, stage", true};
template <>
inline constexpr RowTable kTable<FaultRow> = {"faults", "number", true};
template <>
inline constexpr RowTable kTable<SimulatedRow> = {"simulated_times", "step, group_index, stage",
                                                  true};
template <>
inline constexpr RowTable kTable<CodecSwitchRow> = {
    "codec_switches", "step, group_index, boundary, direction DESC", true};
template <>
inline constexpr RowTable kTable<EstimateRow> = {
    "estimates", "arm, evaluation, quantity", false, "INSERT", "", "experiment_id"};

// Every kind of row that a run has.
#define LONGHAUL_FOR_EACH_RUN_ROW(Do)                                                    \
  Do(StepRow) Do(LinkRow) Do(CrossingRow) Do(CheckpointCrossingRow) Do(CrossingErrorRow) \
      Do(EvaluationRow) Do(RoundRow) Do(FaultRow) Do(SimulatedRow) Do(CodecSwitchRow)    \
          Do(OuterDeltaRow)

}  // namespace longhaul
