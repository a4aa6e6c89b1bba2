#pragma once

#include <string>
#include <vector>

#include "experiments/record/record_rows.h"
#include "tests/experiments/command/command_line.h"

namespace longhaul {

// A spec of experiments/specs, run as a user runs it. In `make test` shortened; in `make
// test-systems` (scripts/test-systems.sh sets LONGHAUL_LONG_SYSTEMS) whole, and then also killed,
// resumed and put behind shaped links.
bool LongSystems();

struct SystemRun {
  CommandResult result;
  std::vector<StepRow> steps;
  std::vector<CrossingRow> crossings;
  std::vector<CodecSwitchRow> switches;
  std::vector<EvaluationRow> evaluations;
};

// The only run of `results`, which need not be there.
SystemRun SystemRunIn(const std::string& results, CommandResult result);
// `longhaul run` of a file with `sets` and further arguments, into `results`.
SystemRun RunSystem(const std::string& path, const std::vector<std::string>& sets,
                    const std::string& results, const std::vector<std::string>& more = {});

// The parameters of every rank after every step.
std::vector<uint64_t> HashesOf(const SystemRun& run);

// The last step's loss is lower than the first's by `nat` at least; in the long form the held-out
// loss is also below what a table of byte frequencies has, by the margin of the tool's own note.
void ExpectItLearns(const SystemRun& run, double nat);

// Between each two ranks and in each direction of `directions`, the bytes of messages that were counted
// are those planned: within a share, or, where the codec's rank follows the tensors, from
// half of the plan to the plan.
struct PlannedShare {
  double apart = 0.005;
  bool is_bound = false;
};
void ExpectPlannedBytes(const std::string& path, const std::vector<std::string>& sets,
                        const SystemRun& run, PlannedShare outer = {});

// Killed with SIGKILL once it has written a checkpoint and begun the next, then resumed: the bits, bytes and changes
// of codecs of `whole`, a run that wrote none.
void ExpectTheSameAfterAKill(const std::string& path, const std::vector<std::string>& sets,
                             const SystemRun& whole);

// Long form: what `make test-systems` asks of a spec beside the above, and its row for the table.
void ExpectWhatLongSystemsHold(const std::string& path, const std::vector<std::string>& sets,
                               const SystemRun& whole);

// NAME of every experiments/specs/PREFIX*.toml, sorted.
std::vector<std::string> SystemNames(const std::string& prefix);

}  // namespace longhaul
