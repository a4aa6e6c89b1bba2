#include "pp_group/schedule/training_clock.h"

#include <algorithm>
#include <utility>

namespace longhaul {

TrainingClock::TrainingClock(const PipelineProgram& program,
                             const std::vector<PipelineCosts>& groups)
    : program_(program) {
  for (const PipelineCosts& costs : groups) {
    groups_.emplace_back(program, costs, Wires::kFullDuplex);
  }
}

absl::Status TrainingClock::Actions() {
  for (Timeline& group : groups_) {
    if (absl::Status s = group.Actions(); !s.ok()) return s;
  }
  return absl::OkStatus();
}

void TrainingClock::Update() {
  for (Timeline& group : groups_) group.Update();
}

Sent TrainingClock::Send(int exchange, const PeerMessage& m) {
  const int rank = program_.rank_of_stage[static_cast<size_t>(m.stage)];
  const Sent sent =
      Take(m.wire, Seconds(m.from_group, rank), &wires_used_[{rank, m.from_group, m.to_group}]);
  std::vector<Waits>& waits = under_way_[exchange];
  waits.push_back({m.from_group, rank, sent.left});
  waits.push_back({m.to_group, rank, sent.arrived});
  return sent;
}

void TrainingClock::Receive(int exchange) {
  for (const Waits& w : std::exchange(under_way_[exchange], {})) {
    groups_[static_cast<size_t>(w.group)].WaitUntil(w.rank, w.until);
  }
}

void TrainingClock::TellAll(int group, const std::vector<double>& delays_s) {
  Timeline& timeline = groups_[static_cast<size_t>(group)];
  const std::vector<double> told = timeline.clock();
  for (size_t from = 0; from < told.size(); ++from) {
    for (size_t to = 0; to < told.size(); ++to) {
      if (from == to) continue;
      timeline.WaitUntil(static_cast<int>(to), told[from] + delays_s[from * told.size() + to]);
    }
  }
}

}  // namespace longhaul
