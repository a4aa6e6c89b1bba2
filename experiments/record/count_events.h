#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "experiments/record/row_fields.h"

namespace longhaul {

// What is counted while a run trains, as it travels from the process that counts to the recorder
// (row_json.h), where it becomes crossings (record_rows.h). `checkpoint`: the step after which a
// checkpoint was written; 0: the whole training.

// Within a group; between groups; rows of spread experts, which go between groups too; the state
// that a member hands to a joiner; between the first and the last stage of a group, of a tied head.
enum class CrossingKind { kBoundary, kOuter, kExperts, kState, kTied };
template <>
inline constexpr std::array<std::string_view, 5> kWords<CrossingKind> = {
    "boundary", "outer", "experts", "state", "tied"};

inline constexpr std::string_view kActivationCount = "activation", kGradientCount = "gradient";

// Event "crossing": one direction between a rank and its peer, by that rank, since its group's life
// began. A life that goes on tells the same again, with more.
struct CrossingCount {
  int64_t checkpoint = 0;
  int64_t life = 0;  // how often the group was started anew
  CrossingKind group_kind = CrossingKind::kBoundary;
  int64_t rank = 0;  // of the run
  int64_t peer = 0;  // boundary, tied: a rank of the same group; else: a group, of the same stage
  bool sent = false;
  // Where ranks have several stages: "activation" or "gradient" of a boundary, which the order of
  // ranks does not tell; of the others which stage, since a rank tells of each.
  std::string kind = {};
  int64_t stage = 0;
  std::string codec = {};
  int64_t tensors = 0, elements = 0, payload_bytes = 0, message_bytes = 0;
  double encode_s = 0, decode_s = 0;
  int64_t nmse_samples = 0;
  std::optional<double> nmse_mean = std::nullopt, nmse_max = std::nullopt;  // none without samples
  uint64_t payload_hash = 0;
};

template <RowOf<CrossingCount> Row, typename Visit>
void VisitFields(Row& r, Visit&& visit) {
  visit("checkpoint", r.checkpoint);
  visit("life", r.life);
  visit("group_kind", r.group_kind);
  visit("rank", r.rank);
  visit("peer", r.peer);
  visit("sent", r.sent);
  visit("kind", r.kind);
  visit("stage", r.stage);
  visit("codec", r.codec);
  visit("tensors", r.tensors);
  visit("elements", r.elements);
  visit("payload_bytes", r.payload_bytes);
  visit("message_bytes", r.message_bytes);
  visit("encode_s", r.encode_s);
  visit("decode_s", r.decode_s);
  visit("nmse_samples", r.nmse_samples);
  visit("nmse_mean", r.nmse_mean);
  visit("nmse_max", r.nmse_max);
  visit("payload_hash", r.payload_hash);
}

// Event "path": between two nodes, Ethernet level, by the emulator.
struct PathCount {
  int64_t from = 0, to = 0, checkpoint = 0;
  double seconds = 0;  // since all workers were ready
  int64_t packets = 0, bytes = 0;
  int64_t drops_queue = 0;  // by a full queue or by queue management
  int64_t drops_loss = 0;
};

template <RowOf<PathCount> Row, typename Visit>
void VisitFields(Row& r, Visit&& visit) {
  visit("from", r.from);
  visit("to", r.to);
  visit("checkpoint", r.checkpoint);
  visit("seconds", r.seconds);
  visit("packets", r.packets);
  visit("bytes", r.bytes);
  visit("drops_queue", r.drops_queue);
  visit("drops_loss", r.drops_loss);
}

// Event "node": bytes that reached a node, by its interface and by the emulator.
struct NodeCount {
  int64_t node = 0, checkpoint = 0;
  int64_t received = 0;   // by its interface
  int64_t delivered = 0;  // to it by the emulator, as its interface counts
};

template <RowOf<NodeCount> Row, typename Visit>
void VisitFields(Row& r, Visit&& visit) {
  visit("node", r.node);
  visit("checkpoint", r.checkpoint);
  visit("received", r.received);
  visit("delivered", r.delivered);
}

}  // namespace longhaul
