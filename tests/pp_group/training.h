#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pp_group/trainer.h"
#include "tests/pp_group/memory_backend.h"

namespace longhaul {

// A small run that exercises every part: 8 blocks of width 32, so that S may be 1, 2, 4 or 8.
// `model`: one of SmallModels().
TrainSpec SmallSpec(int stages, int groups, const std::string& model = "gpt_cpu");
// Every kind and engine of the table, "KIND_ENGINE".
std::vector<std::string> SmallModels();

// A corpus of generated text (a few words with structure), written once to the test's folder.
std::shared_ptr<const Corpus> SmallCorpus();

// `spec` with that schedule, of as few stages a rank as it is made for.
TrainSpec With(TrainSpec spec, const std::string& schedule);

// All S*G stages of `spec` over memory backends.
std::vector<LocalRank> MemoryRanks(const TrainSpec& spec);

// A trainer of all ranks in this thread; fails the test on an error.
std::unique_ptr<Trainer> NewTrainer(const TrainSpec& spec);

// What must be equal between two runs.
struct History {
  std::vector<double> losses;                 // step by step, group by group
  std::vector<std::vector<uint64_t>> hashes;  // [step][rank]
};
// Runs `steps` steps and appends to `history`; fails the test on an error.
void RunSteps(Trainer& trainer, int64_t steps, History* history);
History RunAll(const TrainSpec& spec);

absl::Duration TestClock();

// A file of tests/golden.
std::string GoldenPath(const std::string& name);

}  // namespace longhaul
