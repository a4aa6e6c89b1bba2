#include "tests/pp_group/training.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <ATen/Parallel.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "compressors/numbers/noise.h"
#include "gtest/gtest.h"
#include "pp_group/models/model.h"
#include "pp_group/schedule/catalog.h"
#include "pp_group/train_spec.h"

namespace longhaul {

std::vector<std::string> SmallModels() {
  std::vector<std::string> names;
  for (const std::string& kind : ModelKinds()) {
    for (const std::string& engine : ModelEngines()) {
      const ModelSpec model{.blocks = 1,
                            .width = 2,
                            .heads = 1,
                            .context = 1,
                            .vocab = 2,
                            .kind = kind,
                            .engine = engine};
      if (EngineOf(model, {}).ok()) names.push_back(absl::StrCat(kind, "_", engine));
    }
  }
  return names;
}

TrainSpec SmallSpec(int stages, int groups, const std::string& model) {
  const size_t underscore = model.find('_');
  return {.model = {.blocks = 8,
                    .width = 32,
                    .heads = 2,
                    .context = 32,
                    .vocab = 256,
                    .kind = model.substr(0, underscore),
                    .engine = model.substr(underscore + 1),
                    .kv_heads = 1,
                    .hidden = 48,
                    .experts = 4},
          .stages = stages,
          .groups = groups,
          .schedule = "1f1b",
          .microbatches = 4,
          .batch_rows = 8,
          .steps = 12,
          .inner = {.lr = 3e-3, .warmup_steps = 3},
          .outer = {.inner_steps = groups > 1 ? 5 : 0},
          .seed = 7,
          .hash_every = 1};
}

std::shared_ptr<const Corpus> SmallCorpus() {
  static const std::shared_ptr<const Corpus> corpus = [] {
    const std::string path = absl::StrCat(testing::TempDir(), "/pp_group_corpus_", getpid());
    std::ofstream file(path, std::ios::binary);
    const char* words[] = {"stage", "boundary", "crossing", "codec", "link", "outer", "inner"};
    for (uint64_t i = 0; i < 30000; ++i) {
      file << words[SplitMix64(i) % 7] << (SplitMix64(i + 1) % 5 == 0 ? ".\n" : " ");
    }
    file.close();
    auto opened = Corpus::Open("text:" + path, 256);
    EXPECT_TRUE(opened.ok()) << opened.status();
    std::filesystem::remove(path);
    return *opened;
  }();
  return corpus;
}

TrainSpec With(TrainSpec spec, const std::string& schedule) {
  spec.schedule = schedule;
  spec.chunks = FindSchedule(schedule)->least_chunks;
  return spec;
}

std::vector<LocalRank> MemoryRanks(const TrainSpec& spec) {
  const std::vector<int> rank_of_stage = RanksOfStages(spec);
  const int count = spec.stages / spec.chunks;
  std::vector<LocalRank> ranks;
  for (int g = 0; g < spec.groups; ++g) {
    const auto boundary = NewMemoryGroup(count), plain = NewMemoryGroup(count);
    for (int s = 0; s < spec.stages; ++s) {
      const auto r = static_cast<size_t>(rank_of_stage[s]);
      ranks.push_back({g, s, boundary[r], plain[r], nullptr});
    }
    if (!spec.model.tied_head || rank_of_stage.front() == rank_of_stage.back()) continue;
    const auto tied = NewMemoryGroup(2);
    ranks[ranks.size() - static_cast<size_t>(spec.stages)].tied = tied[0];
    ranks.back().tied = tied[1];
  }
  if (spec.groups == 1) return ranks;
  for (int s = 0; s < spec.stages; ++s) {
    const auto peers = NewMemoryGroup(spec.groups);
    for (int g = 0; g < spec.groups; ++g) ranks[g * spec.stages + s].outer = peers[g];
  }
  return ranks;
}

absl::Duration TestClock() { return absl::Now() - absl::UnixEpoch(); }

std::unique_ptr<Trainer> NewTrainer(const TrainSpec& spec) {
  at::set_num_threads(1);  // tests run side by side: spinning helper threads only cost time
  auto trainer = Trainer::Create(spec, MemoryRanks(spec), SmallCorpus(), TestClock);
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  return trainer.ok() ? *std::move(trainer) : nullptr;
}

void RunSteps(Trainer& trainer, int64_t steps, History* history) {
  for (int64_t i = 0; i < steps; ++i) {
    const auto reports = trainer.Step();
    ASSERT_TRUE(reports.ok()) << reports.status();
    std::vector<uint64_t> hashes;
    for (const StepReport& report : *reports) {
      if (report.loss) history->losses.push_back(*report.loss);
      hashes.push_back(report.parameter_hash.value());
    }
    history->hashes.push_back(hashes);
  }
}

std::string GoldenPath(const std::string& name) {
  const char* const carried = std::getenv("LONGHAUL_GOLDEN_DIRECTORY");
  return absl::StrCat(carried != nullptr ? carried : LONGHAUL_GOLDEN_DIRECTORY, "/", name);
}

History RunAll(const TrainSpec& spec) {
  History history;
  const std::unique_ptr<Trainer> trainer = NewTrainer(spec);
  if (trainer != nullptr) RunSteps(*trainer, spec.steps, &history);
  return history;
}

}  // namespace longhaul
