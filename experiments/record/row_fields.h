#pragma once

#include <concepts>
#include <string_view>
#include <type_traits>

#include "experiments/record/record_rows.h"

namespace longhaul {

// One table per kind of row that is measured while a run runs: a name is the column of schema.sql
// and the key of the event (row_json.h) at once, and the order is that of INSERT and SELECT
// (row_sql.h). A new figure is its field in record_rows.h, its line here and its column.
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

}  // namespace longhaul
