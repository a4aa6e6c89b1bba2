#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "experiments/launch/program_log.h"
#include "experiments/launch/rank_end.h"
#include "experiments/spec/spec.h"

namespace longhaul {

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
