// Ten DiLoCo rounds against PyTorch: the files that diloco_golden.py --rewrite makes, with exact
// outer deltas and with ones in 4 bits with error feedback.

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <ATen/Parallel.h>

#include "compressors/numbers/noise.h"
#include "gtest/gtest.h"
#include "tests/pp_group/training.h"

namespace longhaul {
namespace {

TrainSpec GoldenSpec(int stages) {
  return {.model = {.blocks = 2, .width = 16, .heads = 2, .context = 16, .vocab = 64},
          .stages = stages,
          .groups = 2,
          .schedule = "gpipe",
          .microbatches = 2,
          .batch_rows = 4,
          .steps = 30,
          .inner = {.lr = 1e-2, .warmup_steps = 4, .clip_norm = 0.5},
          .outer = {.inner_steps = 3},
          .seed = 11};
}

std::shared_ptr<const Corpus> GoldenCorpus() {
  const std::string path = testing::TempDir() + "/golden_" + std::to_string(getpid()) + ".bin";
  std::vector<uint16_t> ids(20000);
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<uint16_t>((SplitMix64(i / 3) + i % 3) % 64);
  }
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(ids.data()),
             static_cast<std::streamsize>(2 * ids.size()));
  auto corpus = Corpus::Open("tokens:" + path, 64);
  std::filesystem::remove(path);
  EXPECT_TRUE(corpus.ok()) << corpus.status();
  return *corpus;
}

struct Case {
  int stages;
  std::string codec, file;
};
class Golden : public testing::TestWithParam<Case> {};

TEST_P(Golden, TenDiLoCoRoundsAreThoseOfPyTorch) {
  at::set_num_threads(1);
  TrainSpec spec = GoldenSpec(GetParam().stages);
  spec.outer.codec = GetParam().codec;
  auto trainer = Trainer::Create(spec, MemoryRanks(spec), GoldenCorpus(), TestClock);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  std::ifstream golden(GoldenPath(GetParam().file));
  int64_t compared = 0, step = 0;
  int group = 0;
  double loss = 0, first = 0;
  std::vector<StepReport> reports;
  while (golden >> step >> group >> loss) {
    if (group == 0) {
      auto next = (*trainer)->Step();
      ASSERT_TRUE(next.ok()) << next.status();
      reports = *std::move(next);
    }
    const StepReport& last = reports[(group + 1) * spec.stages - 1];
    ASSERT_EQ(last.step, step);
    // Float32 sums in another order, over thirty steps of a chaotic iteration.
    EXPECT_NEAR(*last.loss, loss, 2e-4) << "step " << step << " group " << group;
    if (compared++ == 0) first = loss;
  }
  EXPECT_EQ(compared, 60);
  EXPECT_LT(loss, first - 0.1) << "the golden run learns nothing: it would hide a broken optimizer";
}

INSTANTIATE_TEST_SUITE_P(Stages, Golden,
                         testing::Values(Case{1, "none", "diloco.txt"},
                                         Case{2, "none", "diloco.txt"},
                                         Case{1, "int4-b64+ef", "diloco_int4_ef.txt"},
                                         Case{2, "int4-b64+ef", "diloco_int4_ef.txt"}));

}  // namespace
}  // namespace longhaul
