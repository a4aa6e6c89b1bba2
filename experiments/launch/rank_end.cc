#include "experiments/launch/rank_end.h"

#include <sys/resource.h>

#include <algorithm>

#include <fmt/format.h>

namespace longhaul {
namespace {

// Largest that this process has been. The kernel counts a program's peak from before its exec, when
// it was a copy of us.
int64_t OwnPeakBytes() {
  rusage own{};
  getrusage(RUSAGE_SELF, &own);
  return int64_t{own.ru_maxrss} << 10;
}

}  // namespace

double Seconds(absl::Time monotonic) {
  return absl::ToDoubleSeconds(monotonic - absl::UnixEpoch());
}

RanksEnded EndsOfRanks(const std::vector<StartedProgram>& started,
                       const std::vector<ProgramEnd>& ends, int status, absl::Time began) {
  RanksEnded all{.ranks = std::vector<RankEnd>(started.size()), .status = status};
  const int64_t own = OwnPeakBytes();
  for (const ProgramEnd& end : ends) {
    const auto at = std::find_if(started.begin(), started.end(),
                                 [&](const StartedProgram& one) { return one.pid == end.pid; });
    const auto rank = static_cast<size_t>(at - started.begin());
    if (rank == started.size()) continue;
    all.ranks[rank] = {.status = end.status,
                       .cpu_s = end.cpu_s,
                       .wall_s = absl::ToDoubleSeconds(end.at - began),
                       .peak_bytes = end.peak_bytes,
                       .peak_is_bound = end.peak_bytes <= own};
    if (!all.first_to_fail && end.status != 0 && end.status == status) all.first_to_fail = rank;
  }
  return all;
}

std::string EndText(int status) {
  return status > 128 ? fmt::format("signal {}", status - 128)
                      : fmt::format("exit status {}", status);
}

std::map<std::string, std::string> FactsOf(const std::vector<RankEnd>& ends) {
  std::map<std::string, std::string> facts;
  for (size_t rank = 0; rank < ends.size(); ++rank) {
    facts[fmt::format("exit_status_of_rank_{}", rank)] = std::to_string(ends[rank].status);
    facts[fmt::format("cpu_s_of_rank_{}", rank)] = fmt::format("{:.2f}", ends[rank].cpu_s);
    facts[fmt::format("wall_s_of_rank_{}", rank)] = fmt::format("{:.2f}", ends[rank].wall_s);
    facts[fmt::format("peak_bytes_of_rank_{}", rank)] =
        fmt::format("{}{}", ends[rank].peak_is_bound ? "<= " : "", ends[rank].peak_bytes);
  }
  return facts;
}

}  // namespace longhaul
