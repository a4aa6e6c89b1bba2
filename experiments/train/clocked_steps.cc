#include "experiments/train/clocked_steps.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace longhaul {

void ClockedSteps::Tell(Direction direction, int64_t from, const LocalTelemetry& to,
                        const CrossingCounters& now) {
  Received& before = before_[{direction, from, to.rank, to.life}];
  const int64_t messages = now.tensors - before.messages, bytes = now.message_bytes - before.bytes;
  before = {now.tensors, now.message_bytes};
  if (messages == 0) return;
  bytes_[{to.group, to.stage}] += bytes;
  clock_.SetMessageBytes(direction, from, to.rank,
                         static_cast<double>(bytes) / static_cast<double>(messages));
}

absl::Status ClockedSteps::After(const std::vector<LocalTelemetry>& ranks,
                                 const std::vector<StepReport>& reports,
                                 std::vector<TraceSpan>* trace) {
  for (const LocalTelemetry& rank : ranks) {
    const int64_t size = rank.boundary == nullptr ? 1 : rank.boundary->getSize();
    const int64_t first = rank.group * size;
    if (rank.lowest && size > 1) {
      const auto totals = rank.looped ? TotalsByPeerAndKind : TotalsByPeer;
      for (const CrossingCounters& c : totals(rank.boundary->group().counters())) {
        if (c.sent) continue;  // what has come is counted; what was sent may still be on its way
        const bool forward =
            rank.looped ? c.kind == TensorKind::kActivation : first + c.peer < rank.rank;
        Tell(forward ? Direction::kForward : Direction::kBackward, first + c.peer, rank, c);
      }
    }
    if (rank.tied == nullptr) continue;
    for (const CrossingCounters& c : TotalsByPeer(rank.tied->group().counters())) {
      if (!c.sent) Tell(Direction::kTied, first + rank.tied_peer, rank, c);
    }
  }
  for (const StepReport& r : reports) {
    if (r.outer_bytes_sent == 0) continue;
    bytes_[{r.group, r.stage}] += r.outer_bytes_sent;
    clock_.SetExchangeBytes(r.group, r.stage, static_cast<double>(r.outer_bytes_sent));
  }
  RETURN_IF_ERROR(clock_.Step(trace));
  return CheckGroups(reports);
}

// The training's script and the clock's are one, and both follow it by themselves.
absl::Status ClockedSteps::CheckGroups(const std::vector<StepReport>& reports) const {
  std::set<int> here;
  for (const StepReport& r : reports) here.insert(r.group);
  for (int g = 0; g < clock_.groups(); ++g) {
    if (here.contains(g) == clock_.Did(g)) continue;
    return absl::InternalError(
        absl::StrCat("step ", clock_.step(), ": group ", g,
                     " did it in the training or on its clock, not in both"));
  }
  return absl::OkStatus();
}

SimulatedRow ClockedSteps::Of(const StepReport& r) const {
  const auto bytes = bytes_.find({r.group, r.stage});
  return {.step = r.step,
          .group_index = r.group,
          .stage = r.stage,
          .simulated_s = clock_.Seconds(r.group, r.stage),
          .message_bytes = bytes == bytes_.end() ? 0 : bytes->second};
}

}  // namespace longhaul
