// A tied head that two stages hold, in files that have it once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>

#include "experiments/train/model_weights.h"
#include "experiments/train/weight_files.h"
#include "pp_group/state/checkpoint.h"
#include "tests/experiments/command/command_line.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

RunSpec TiedSpec() {
  RunSpec spec{};
  spec.model.kind = "llama";
  spec.model.blocks = 4;
  spec.model.width = 32;
  spec.model.heads = 4;
  spec.model.context = 16;
  spec.model.vocab = 61;
  spec.model.tied_head = true;
  spec.schedule.stages = 4;
  return spec;
}

std::vector<float> Initial(const RunSpec& spec, int stage) {
  const StageLayout layout = LayoutOf(spec.model, stage, 4);
  std::vector<float> flat(static_cast<size_t>(layout.flat_elements));
  InitializeParameters(layout, /*seed=*/3, flat.data());
  return flat;
}

std::vector<float> FilledBy(const ModelWeights& weights, const RunSpec& spec, int stage) {
  const StageLayout layout = LayoutOf(spec.model, stage, 4);
  std::vector<float> flat(static_cast<size_t>(layout.flat_elements));
  EXPECT_TRUE(weights.Fill(layout, flat.data()).ok());
  return flat;
}

// Both ends of a tied head hold it; an export and another run's weights have it once.
TEST(ExportWeights, TakesATiedHeadOnce) {
  const ScratchFolder scratch;
  const RunSpec spec = TiedSpec();
  for (int stage = 0; stage < 4; ++stage) {
    const std::vector<float> flat = Initial(spec, stage);
    const auto bytes = std::as_bytes(std::span(flat));
    ASSERT_TRUE(WriteCheckpoint(scratch.path(),
                                {.step = 5,
                                 .group = 0,
                                 .stage = stage,
                                 .spec = "\nblocks=4\nwidth=32\nheads=4\ncontext=16\nvocab=61\n",
                                 .sections = {{"parameters", {bytes.begin(), bytes.end()}}}})
                    .ok());
  }
  const std::string out = scratch.path() + "/out";
  const absl::Status exported = ExportWeights(scratch.path(), spec, out);
  ASSERT_TRUE(exported.ok()) << exported;
  EXPECT_THAT(ReadFile(out + "/config.json"), HasSubstr("\"tie_word_embeddings\": true"));
  const auto weights = ModelWeights::Open(out + "/model.safetensors", spec);
  ASSERT_TRUE(weights.ok()) << weights.status();
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(FilledBy(**weights, spec, stage), Initial(spec, stage)) << "stage " << stage;
  }
  RunSpec untied = spec;
  untied.model.tied_head = false;
  const auto refused = [&](const std::string& path) {
    return std::string(ModelWeights::Open(path, untied).status().message());
  };
  EXPECT_THAT(refused(out + "/model.safetensors"),
              HasSubstr("no 'lm_head.weight', as where the embedding is the head: then want "
                        "model.tied_head = true"));
  EXPECT_THAT(refused(out), HasSubstr("a folder; want its model.safetensors or"));
}

}  // namespace
}  // namespace longhaul
