#include "experiments/run/core_needs.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

namespace longhaul {

int64_t CoresNeeded(const RunSpec& spec) {
  if (spec.injected()) return 1;  // its workers sleep
  if (spec.program) return spec.workers() * spec.limits.threads;
  const int64_t processes = spec.net.transport == "loopback" ? 1 : spec.workers();
  return processes * spec.limits.threads;
}

int64_t CoresNeeded(const RunRow& run) {
  if (run.facts.contains(kComputeFact)) return 1;
  const auto ranks = run.facts.find(kRanksFact);
  const int64_t workers =
      ranks == run.facts.end() ? run.stages * run.groups : std::atoll(ranks->second.c_str());
  const bool one = run.profile == "loopback" && !run.facts.contains(kProgramFact);
  return (one ? 1 : workers) * run.threads;
}

int64_t CoresAllowed() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return std::max(1u, std::thread::hardware_concurrency());  // more cores than cpu_set_t holds
}

int64_t CoresBusy(const std::vector<RunRow>& runs, const std::string& host) {
  int64_t cores = 0;
  for (const RunRow& run : runs) {
    if (run.status == RunStatus::kRunning && run.host == host) cores += CoresNeeded(run);
  }
  return cores;
}

}  // namespace longhaul
