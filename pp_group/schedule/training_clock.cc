#include "pp_group/schedule/training_clock.h"

#include <algorithm>
#include <utility>

namespace longhaul {

TrainingClock::TrainingClock(const PipelineProgram& program,
                             const std::vector<PipelineCosts>& groups)
    : program_(program), away_(groups.size(), false), returns_(groups.size(), 0) {
  for (const PipelineCosts& costs : groups) {
    groups_.emplace_back(program, costs, Wires::kFullDuplex);
  }
}

absl::Status TrainingClock::Actions() {
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (away_[g]) continue;
    if (absl::Status s = groups_[g].Actions(); !s.ok()) return s;
  }
  return absl::OkStatus();
}

void TrainingClock::Update() {
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (!away_[g]) groups_[g].Update();
  }
}

void TrainingClock::Return(int group, double s) {
  away_[static_cast<size_t>(group)] = false;
  ++returns_[static_cast<size_t>(group)];
  groups_[static_cast<size_t>(group)].Restart(s);
  std::erase_if(wires_used_, [group](const auto& used) {
    const auto& [rank, from, to] = used.first;
    return from == group || to == group;
  });
}

void TrainingClock::WaitUntil(int group, int rank, double s) {
  groups_[static_cast<size_t>(group)].WaitUntil(rank, s);
}

void TrainingClock::HoldLink(int group, int from_rank, int to_rank, double s) {
  groups_[static_cast<size_t>(group)].HoldLink(from_rank, to_rank, s);
}

void TrainingClock::HoldPath(int rank, int from_group, int to_group, double s) {
  wires_used_[{rank, from_group, to_group}].Hold(s);
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
