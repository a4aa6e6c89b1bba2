#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "experiments/launch/started_programs.h"

namespace longhaul {

// How a rank ended.
struct RankEnd {
  int status = 0;  // exit status, 128 + signal
  double cpu_s = 0, wall_s = 0;
  int64_t peak_bytes = 0;  // of its largest process
  // The process that started it, a copy of this one, was as large: the rank's own are below.
  bool peak_is_bound = false;
};

struct RanksEnded {
  std::vector<RankEnd> ranks;
  int status = 0;                            // of the program: WaitForPrograms'
  std::optional<size_t> first_to_fail = {};  // the rank that gave it
};

// `started`: a program for each rank, in their order; `ends` of all of them, as WaitForPrograms
// gave them with `status`. `began`: MonotonicNow() when they were started.
RanksEnded EndsOfRanks(const std::vector<StartedProgram>& started,
                       const std::vector<ProgramEnd>& ends, int status, absl::Time began);

// "signal 9", "exit status 7".
std::string EndText(int status);

// What a record keeps of them: "exit_status_of_rank_0", "cpu_s_of_rank_0", ...
std::map<std::string, std::string> FactsOf(const std::vector<RankEnd>& ends);

// Of CLOCK_MONOTONIC, as Python's time.monotonic().
double Seconds(absl::Time monotonic);

}  // namespace longhaul
