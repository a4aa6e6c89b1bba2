#include "experiments/run/wire_bytes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "absl/strings/str_join.h"
#include "experiments/record/row_json.h"
#include "experiments/spec/plans_of_spec.h"
#include "experiments/train/traffic.h"
#include "plugin/core/packet.h"

namespace longhaul {
namespace {

// Our headers and the transport's are in a message's bytes on TCP.
double OnTcp(double message_bytes, double messages) {
  if (messages == 0) return 0;
  const double pieces = std::ceil(message_bytes / messages / kTransportPiece) - 1;
  return message_bytes + messages * (kTransportPacketBytes + pieces * kTransportPieceBytes);
}

// What is planned from one rank to another in one direction, of all boundaries, stages and fragments
// together, and what its sender hands to TCP over the whole training; nullopt: unknown.
struct Planned {
  double messages_per_step = 1;
  double messages = 0, elements = 0;
  std::optional<double> tcp_bytes = 0;
};

class Plan {
 public:
  Plan(const RunSpec& spec, const WirePart& part) {
    absl::StatusOr<std::vector<PlannedCrossing>> crossings =
        PlanCrossings(spec, part.restored, part.switches);
    if (!crossings.ok()) return;
    std::map<std::tuple<Direction, std::string, uint64_t, DType, std::vector<uint64_t>, int64_t>,
             std::optional<double>>
        messages;
    const int64_t steps = std::max<int64_t>(1, Steps(spec) - part.restored);
    for (PlannedCrossing& c : *crossings) {
      const auto [at, added] = messages.try_emplace(
          {c.direction, c.codec, c.shape.elements(), c.dtype, c.parts, c.first_visits});
      if (added) at->second = MessageBytes(c);
      Planned& planned = planned_[{c.direction, c.src_rank, c.dst_rank}];
      const auto count = static_cast<double>(c.turns * c.messages_per_turn);
      planned.messages += count;
      planned.elements += count * static_cast<double>(c.shape.elements());
      const std::optional<double> bytes = Bytes(c, at->second);
      planned.messages_per_step = std::max(1.0, planned.messages / static_cast<double>(steps));
      if (!bytes || !planned.tcp_bytes) {
        planned.tcp_bytes = std::nullopt;
      } else {
        *planned.tcp_bytes += *bytes;
      }
    }
  }
  const Planned* Of(const CrossingRow& c) const {
    const auto at = planned_.find({c.direction, c.src_rank, c.dst_rank});
    return at == planned_.end() ? nullptr : &at->second;
  }

 private:
  static std::optional<double> Bytes(const PlannedCrossing& c, std::optional<double> message) {
    if (!message) return std::nullopt;
    const auto messages = static_cast<double>(c.turns * c.messages_per_turn);
    // Between groups the frame's size goes ahead of it.
    return OnTcp(*message * messages, (c.direction == Direction::kOuter ? 2 : 1) * messages);
  }
  std::map<std::tuple<Direction, int64_t, int64_t>, Planned> planned_;
};

// A path's share of what its receiver's interface counted.
std::optional<int64_t> ReceivedBytes(const WireCounts& counts, const CrossingRow& c) {
  const auto node = counts.nodes.find(c.dst_rank);
  const auto path = counts.paths.find({c.src_rank, c.dst_rank});
  if (node == counts.nodes.end() || path == counts.paths.end() || node->second.delivered == 0) {
    return std::nullopt;
  }
  return std::llround(static_cast<double>(path->second.bytes) *
                      static_cast<double>(node->second.received) /
                      static_cast<double>(node->second.delivered));
}

double Heartbeats(const RunSpec& spec, const PathCount& path) {
  constexpr double kBeatsPerDeadline = 5;
  return path.seconds * kBeatsPerDeadline / spec.net.peer_deadline_s *
         static_cast<double>(kPacketHeaderBytes + kTransportPacketBytes);
}

// Bytes on a path that are neither messages nor the transport's headers for them.
double Overhead(const RunSpec& spec, const PathCount& path) {
  return Heartbeats(spec, path) + static_cast<double>(path.packets * kHeadersOfFrameBytes);
}

// All that goes over one path.
struct OnPath {
  const CrossingRow* row = nullptr;  // a boundary's or an outer step's, else a tied head's
  double sent = 0, planned = 0;      // on TCP
  bool all_planned = true;

  void Add(const CrossingRow& c, const std::optional<double>& plan) {
    if (c.tensors == 0) return;
    sent += OnTcp(static_cast<double>(c.message_bytes), static_cast<double>(c.tensors));
    planned += plan.value_or(0);
    all_planned = all_planned && plan.has_value();
    if (c.direction == Direction::kOther) return;  // what routers chose, and states handed over
    if (row == nullptr || row->direction == Direction::kTied) row = &c;
  }
};

// Norms that the stages of a pipeline tell each other at every outer step (pp_group/outer/poison.h), a
// number for each group and stage, in `steps` steps on the path of a boundary.
double NormBytes(const RunSpec& spec, const CrossingRow& c, int64_t steps) {
  const int64_t groups = spec.outer.groups;
  const OuterPlan plan(spec.outer, steps, groups);
  if (c.direction == Direction::kOuter || groups < 2 || !plan.exchanges()) return 0;
  double bytes = 0;
  for (int64_t f = 0; f < plan.fragments(); ++f) {
    const auto syncs = static_cast<double>(plan.Exchanges(f) * spec.schedule.chunks);
    const int64_t members = std::min<int64_t>(groups, plan.MeetingSize(f));
    bytes += OnTcp(syncs * static_cast<double>(kPacketHeaderBytes + 8 * members), syncs);
  }
  return bytes;
}

struct PathBytes {
  double counted, accounted;
  double may_lack = 0;  // of those accounted for
  bool for_lack_alone = false;
};

// "" when what was counted is in the bounds of what was accounted for.
std::string Complaint(const std::string& where, const PathBytes& b, int64_t drops) {
  const double bound =
      kWireTolerance * b.accounted +
      static_cast<double>(kWireAllowanceBytes + drops * (kSegmentBytes + kHeadersOfFrameBytes));
  const bool lacks = b.counted < b.accounted - b.may_lack - bound;
  const bool exceeds = !b.for_lack_alone && b.counted > b.accounted + bound;
  if (!lacks && !exceeds) return "";
  return fmt::format(
      "{}: {:.0f} bytes counted, {:.0f} accounted for, {:+.2f} %, bound {:g} % and {} B", where,
      b.counted, b.accounted, 100 * (b.counted / std::max(1.0, b.accounted) - 1),
      100 * kWireTolerance, kWireAllowanceBytes);
}

int64_t Drops(const PathCount& path) { return path.drops_queue + path.drops_loss; }

// Which paths cannot be told to carry too much (WirePart).
bool ForLackAlone(const RunSpec& spec, const CrossingRow& c, const WirePart& part) {
  if (spec.outer.on_group_loss != "continue") return false;
  const auto moved = [&](int64_t rank) {
    return rank == 0 || part.came_or_went.contains(rank / spec.ranks());
  };
  return moved(c.src_rank) || moved(c.dst_rank);
}

int64_t StepsOf(const RunSpec& spec, const CrossingRow& c, const Planned* planned) {
  if (c.direction == Direction::kTied) return c.tensors;
  if (planned == nullptr) return c.tensors / spec.train.microbatches;
  return std::llround(static_cast<double>(c.tensors) / planned->messages_per_step);
}

// Of a path whose crossing has been sent: what TCP was given and a header for every frame.
std::string PathComplaint(const RunSpec& spec, const WireCounts& counts, const OnPath& on,
                          const Planned* planned, const WirePart& part) {
  const CrossingRow& c = *on.row;
  const auto at = counts.paths.find({c.src_rank, c.dst_rank});
  if (at == counts.paths.end() || c.tensors == 0) return "";
  const PathCount& path = at->second;
  const auto back = counts.paths.find({c.dst_rank, c.src_rank});
  const int64_t drops = Drops(path) + (back == counts.paths.end() ? 0 : Drops(back->second));
  PathBytes bytes{
      .counted = static_cast<double>(path.bytes),
      .accounted = on.sent + NormBytes(spec, c, StepsOf(spec, c, planned)) + Overhead(spec, path),
      .for_lack_alone = ForLackAlone(spec, c, part)};
  // Nobody beats for a group that is not there.
  if (bytes.for_lack_alone) bytes.may_lack += Heartbeats(spec, path);
  // On the wire an exchange is two messages, the frame's size and the frame.
  if (c.direction == Direction::kOuter) {
    bytes.may_lack +=
        static_cast<double>(part.repeated_exchanges) * 2 * on.sent / static_cast<double>(c.tensors);
  }
  return Complaint(fmt::format("path {} > {}", c.src_rank, c.dst_rank), bytes, drops);
}

}  // namespace

void WireCounts::Observe(const nlohmann::json& event) {
  const std::string kind = event.value("event", "");
  if (kind == "path") {
    const PathCount count = RowFrom<PathCount>(event);
    paths[{count.from, count.to}] = count;
  }
  if (kind == "node") {
    const NodeCount count = RowFrom<NodeCount>(event);
    nodes[count.node] = count;
  }
}

std::string JudgedForLackAlone(const RunSpec& spec, const WireCounts& counts,
                               const std::vector<CrossingRow>& crossings, const WirePart& part) {
  std::map<std::pair<int64_t, int64_t>, bool> judged;  // a path: for lack alone
  for (const CrossingRow& c : crossings) {
    if (c.direction == Direction::kOther || c.tensors == 0) continue;
    const std::pair path(c.src_rank, c.dst_rank);
    if (counts.paths.contains(path)) judged[path] = ForLackAlone(spec, c, part);
  }
  const auto one_sided =
      std::count_if(judged.begin(), judged.end(), [](const auto& path) { return path.second; });
  if (one_sided == 0) return "";
  std::string why = "those of node 0, where the store is";
  if (!part.came_or_went.empty()) {
    why +=
        fmt::format(", and of groups that came or went: {}", absl::StrJoin(part.came_or_went, " "));
  }
  return fmt::format("{} of {}: {}", one_sided, judged.size(), why);
}

absl::Status FillWireBytes(const RunSpec& spec, const WireCounts& counts,
                           std::vector<CrossingRow>& crossings, const WirePart& part) {
  const Plan plan(spec, part);
  std::map<std::pair<int64_t, int64_t>, OnPath> paths;
  for (const CrossingRow& c : crossings) {
    const Planned* planned = plan.Of(c);
    const bool known = part.as_planned && planned != nullptr;
    paths[{c.src_rank, c.dst_rank}].Add(c, known ? planned->tcp_bytes : std::nullopt);
  }
  std::map<std::pair<int64_t, int64_t>, double> predicted;  // on TCP
  std::vector<std::string> complaints;
  const auto complain = [&](std::string text) {
    if (!text.empty()) complaints.push_back(std::move(text));
  };
  for (const auto& [path, on] : paths) {
    if (on.row == nullptr) continue;
    if (on.all_planned) {
      predicted[path] = on.planned + NormBytes(spec, *on.row, Steps(spec) - part.restored);
    }
    complain(PathComplaint(spec, counts, on, plan.Of(*on.row), part));
  }
  for (const auto& [node, n] : counts.nodes) {
    complain(Complaint(
        fmt::format("interface of node {}", node),
        {.counted = static_cast<double>(n.received), .accounted = static_cast<double>(n.delivered)},
        /*drops=*/0));
  }
  for (CrossingRow& c : crossings) {
    if (c.direction == Direction::kOuter) {
      // On the wire a round is two byte tensors, the frame's size and the frame; the tensor that
      // crosses is the stage's outer delta.
      c.tensors /= 2;
      const Planned* planned = plan.Of(c);
      const bool known = planned != nullptr && planned->messages > 0;
      const double each = known ? planned->elements / planned->messages : 0;
      c.elements = std::llround(static_cast<double>(c.tensors) * each);
    }
    const auto path = counts.paths.find({c.src_rank, c.dst_rank});
    const bool counted = path != counts.paths.end();
    if (counted) c.kernel_tx_bytes = path->second.bytes;
    c.kernel_rx_bytes = ReceivedBytes(counts, c);
    const auto own = predicted.find({c.src_rank, c.dst_rank});
    if (own == predicted.end()) continue;
    const auto opposite = predicted.find({c.dst_rank, c.src_rank});
    const double acknowledged = opposite == predicted.end() ? 0 : opposite->second / 2;
    const double full = (own->second + acknowledged) / kSegmentBytes * kHeadersOfFrameBytes;
    const double given = paths.at({c.src_rank, c.dst_rank}).sent;
    c.predicted_wire_bytes = std::llround(
        own->second +
        (counted && given > 0 ? own->second / given * Overhead(spec, path->second) : full));
  }
  if (complaints.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError("bytes on the links: " + absl::StrJoin(complaints, "; "));
}

}  // namespace longhaul
