#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "experiments/launch/program_log.h"
#include "experiments/launch/started_programs.h"
#include "experiments/spec/spec.h"

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

// A run of a campaign's [program] that has ended: what is known of it.
struct ProgramRun {
  RanksEnded ended;
  std::vector<ProgramLog> logs;         // by rank
  std::vector<std::string> last_lines;  // by rank, of its standard error, else of its output
};

// The loss that the ranks told, each the same one where several did; nullopt: none did.
std::optional<double> FinalOf(const std::vector<ProgramLog>& logs);
std::optional<double> FinalOnOf(const std::vector<ProgramLog>& logs);

// Whether its loss counts. In one line, with what to do:
// Unavailable: a rank failed, or they had not ended in time. OutOfRange: its loss is no number.
// Aborted: it is no evidence: no loss or two, lines that are none, other tokens than it was given,
// no bytes through the codec that its arm names, or through another one.
absl::Status Judge(const RunSpec& spec, const ProgramRun& run);

}  // namespace longhaul
