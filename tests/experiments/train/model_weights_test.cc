// Weights in and out: what is written reads back, into any number of stages; `transformers`
// computes with them what we do; what does not fit is refused in one line.
#include "experiments/train/model_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>

#include <ATen/Parallel.h>
#include <nlohmann/json.hpp>

#include "experiments/record/record.h"
#include "experiments/train/safetensors.h"
#include "experiments/train/weight_files.h"
#include "pp_group/models/model.h"
#include "pp_group/state/checkpoint.h"
#include "tests/experiments/command/command_line.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

// A kind, or "tied": a llama whose head is the embedding.
RunSpec Spec(const std::string& kind) {
  RunSpec spec{};
  spec.model.kind = kind == "tied" ? "llama" : kind;
  spec.model.tied_head = kind == "tied";
  spec.model.blocks = 4;
  spec.model.width = 32;
  spec.model.heads = 4;
  spec.model.context = 16;
  spec.model.vocab = 61;
  if (kind == "gpt") return spec;
  spec.model.kv_heads = 2;
  spec.model.hidden = 48;
  if (kind == "moe") spec.model.experts = 4;
  return spec;
}

std::unique_ptr<Stage> StageOf(const RunSpec& spec, int stage, int stages) {
  at::set_num_threads(1);
  auto made = NewStage(spec.model, {.stage = stage, .stages = stages, .seed = 3});
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

class EveryKind : public testing::TestWithParam<std::string> {
 protected:
  const ScratchFolder scratch_;
};
std::vector<std::string> Kinds() {
  std::vector<std::string> kinds = ModelKinds();
  kinds.emplace_back("tied");
  return kinds;
}
INSTANTIATE_TEST_SUITE_P(Table, EveryKind, testing::ValuesIn(Kinds()),
                         [](auto& info) { return info.param; });

TEST_P(EveryKind, WhatIsWrittenFillsEveryNumberOfStages) {
  const RunSpec spec = Spec(GetParam());
  const std::unique_ptr<Stage> whole = StageOf(spec, 0, 1);
  ASSERT_TRUE(
      WriteModelWeights(scratch_.path(), spec, whole->parameters().const_data_ptr<float>()).ok());
  const auto weights = ModelWeights::Open(scratch_.path() + "/model.safetensors", spec);
  ASSERT_TRUE(weights.ok()) << weights.status();
  for (const int stages : {1, 2, 4}) {
    for (int s = 0; s < stages; ++s) {
      const std::unique_ptr<Stage> part = StageOf(spec, s, stages);
      std::vector<float> flat(static_cast<size_t>(part->layout().flat_elements));
      ASSERT_TRUE((*weights)->Fill(part->layout(), flat.data()).ok());
      EXPECT_EQ(std::memcmp(flat.data(), part->parameters().const_data_ptr(),
                            flat.size() * sizeof(float)),
                0)
          << s << " of " << stages;
    }
  }
}

TEST_P(EveryKind, FilesWithAnIndexAreReadAsOneFileIs) {
  RunSpec spec = Spec(GetParam());
  const std::unique_ptr<Stage> whole = StageOf(spec, 0, 1);
  const auto* const flat = whole->parameters().const_data_ptr<float>();
  const std::string small = scratch_.path() + "/small", stages = scratch_.path() + "/stages";
  ASSERT_TRUE(WriteModelWeights(small, spec, flat, /*most_bytes=*/20'000).ok());
  spec.schedule.stages = 2;
  for (int s = 0; s < 2; ++s) {
    const std::unique_ptr<Stage> part = StageOf(spec, s, 2);
    ASSERT_TRUE(
        WriteStageWeights(stages, spec, s, part->parameters().const_data_ptr<float>()).ok());
  }
  EXPECT_TRUE(std::filesystem::exists(stages + "/model-00002-of-00002.safetensors"));
  EXPECT_THAT(ReadFile(stages + "/model-00002-of-00002.safetensors"),
              testing::Not(HasSubstr("embed_tokens")));
  EXPECT_FALSE(std::filesystem::exists(small + "/model.safetensors"));
  for (const std::string& folder : {small, stages}) {
    const auto weights = ModelWeights::Open(folder + "/model.safetensors.index.json", spec);
    ASSERT_TRUE(weights.ok()) << weights.status();
    std::vector<float> filled(static_cast<size_t>(whole->layout().flat_elements));
    ASSERT_TRUE((*weights)->Fill(whole->layout(), filled.data()).ok());
    EXPECT_EQ(std::memcmp(filled.data(), flat, filled.size() * sizeof(float)), 0) << folder;
  }
}

// Each in one line, before anything is read of the weights.
TEST(WeightIndex, WhatDoesNotFitIsRefused) {
  const ScratchFolder scratch;
  RunSpec spec = Spec("llama");
  spec.schedule.stages = 2;
  for (int s = 0; s < 2; ++s) {
    const std::unique_ptr<Stage> part = StageOf(spec, s, 2);
    ASSERT_TRUE(
        WriteStageWeights(scratch.path(), spec, s, part->parameters().const_data_ptr<float>())
            .ok());
  }
  const std::string path = scratch.path() + "/model.safetensors.index.json";
  const std::string good = ReadFile(path);
  const auto refusal = [&](const std::string& text) {
    std::ofstream(path) << text;
    const std::string message(ModelWeights::Open(path, spec).status().message());
    EXPECT_EQ(message.find('\n'), std::string::npos);
    return message;
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  EXPECT_EQ(refusal(good), "");
  EXPECT_THAT(refusal(good.substr(0, 100)), HasSubstr("no index"));
  EXPECT_THAT(refusal("[]"), HasSubstr("no index"));
  EXPECT_THAT(refusal("{\"weight_map\": {}}"), HasSubstr("no index"));
  EXPECT_THAT(refusal("{\"weight_map\": {\"a\": 7}}"), HasSubstr("no safetensors file beside it"));
  EXPECT_THAT(refusal(with("model-00001-of-00002", "../model-00001-of-00002")),
              HasSubstr("no safetensors file beside it"));
  EXPECT_THAT(refusal(with("model-00001-of-00002", "model-00003-of-00002")),
              HasSubstr("model-00003-of-00002.safetensors: open: No such file"));
  EXPECT_THAT(refusal(with("model-00001-of-00002", "model-00002-of-00002")),
              HasSubstr("is not in model-00002-of-00002.safetensors"));
  EXPECT_THAT(refusal(with("lm_head.weight", "lm_head.weights")),
              HasSubstr("'lm_head.weights' is not in"));
  std::filesystem::copy_file(scratch.path() + "/model-00001-of-00002.safetensors",
                             scratch.path() + "/x.safetensors");
  EXPECT_THAT(refusal(with("model-00002-of-00002", "x")), HasSubstr("which another file has too"));
}

// Of checkpoints whose experts are spread over two groups: each has what it holds.
TEST(ExportWeights, TakesSpreadExpertsFromTheGroupsThatHaveThem) {
  const ScratchFolder scratch;
  RunSpec spec = Spec("moe");
  spec.model.expert_parallel = 2;
  spec.schedule.stages = 2;
  const ModelSpec model = spec.model;
  for (int i = 0; i < 4; ++i) {
    const int group = i / 2, stage = i % 2;
    const StageLayout layout = LayoutOf(OnExpertRank(model, group), stage, 2);
    std::vector<float> flat(static_cast<size_t>(layout.flat_elements));
    InitializeParameters(layout, /*seed=*/3, flat.data());
    const auto bytes = std::as_bytes(std::span(flat));
    const Checkpoint checkpoint{
        .step = 5,
        .group = group,
        .stage = stage,
        .spec = "blocks=4\nwidth=32\nheads=4\ncontext=16\nvocab=61\nexpert_parallel=2\n",
        .sections = {{"parameters", {bytes.begin(), bytes.end()}}}};
    ASSERT_TRUE(WriteCheckpoint(scratch.path(), checkpoint).ok());
  }
  const std::string out = scratch.path() + "/out";
  const absl::Status exported = ExportWeights(scratch.path(), spec, out);
  ASSERT_TRUE(exported.ok()) << exported;
  const auto weights = ModelWeights::Open(out + "/model.safetensors", spec);
  ASSERT_TRUE(weights.ok()) << weights.status();
  const std::unique_ptr<Stage> whole = StageOf(Spec("moe"), 0, 1);
  std::vector<float> filled(static_cast<size_t>(whole->layout().flat_elements));
  ASSERT_TRUE((*weights)->Fill(whole->layout(), filled.data()).ok());
  EXPECT_EQ(std::memcmp(filled.data(), whole->parameters().const_data_ptr(),
                        filled.size() * sizeof(float)),
            0);
  RunSpec local = spec;
  local.model.expert_parallel = 1;  // these checkpoints are no such run's
  EXPECT_THAT(
      std::string(ExportWeights(scratch.path(), local, scratch.path() + "/other").message()),
      HasSubstr("not of a model with expert_parallel = 1"));
}

// What a finished run leaves is what it was evaluated with: a run that starts there and hardly
// moves has the same held-out loss. Lossless, so that no codec's choice comes between.
TEST(FinishedRun, LeavesTheWeightsThatItWasEvaluatedWith) {
  const ScratchFolder scratch;
  const std::string saved = scratch.path() + "/saved";
  const auto held_out = [&](const std::string& results, std::vector<std::string> sets) {
    std::vector<std::string> words = {"run", scratch.File("spec.toml", TinySpec()), "--results",
                                      scratch.path() + "/" + results};
    for (const char* set : {"boundary.forward=none", "boundary.backward=none", "outer.groups=2",
                            "outer.inner_steps=2", "outer.codec=none"}) {
      sets.emplace_back(set);
    }
    for (const std::string& set : sets) words.insert(words.end(), {"--set", set});
    const CommandResult result = RunLonghaul(words);
    EXPECT_EQ(result.exit_status, 0) << result.output;
    const auto record = Record::Open(scratch.path() + "/" + results, Record::Mode::kRead);
    EXPECT_TRUE(record.ok()) << record.status();
    const auto rows = record->Rows("SELECT loss_nat FROM evaluations ORDER BY step DESC LIMIT 1");
    return std::stod((*rows)[1].front());
  };
  const double end = held_out("first", {"model.save=" + saved});
  const double again = held_out("second", {"model.init=" + saved + "/model.safetensors.index.json",
                                           "train.lr=1e-30", "train.steps=1", "schedule.stages=4"});
  EXPECT_EQ(end, again);
  EXPECT_LT(end, 5.5);  // it has learned: ln 256 is 5.545
}

// Each group writes its experts; a run reads them into the same groups, or all into each.
TEST(FinishedRun, LeavesSpreadExpertsOnceEach) {
  const ScratchFolder scratch;
  const std::string saved = scratch.path() + "/saved";
  const std::string index = saved + "/model.safetensors.index.json";
  const auto held_out = [&](const std::string& results, const std::vector<std::string>& sets) {
    std::vector<std::string> words = {"run", scratch.File("spec.toml", TinySpec()), "--results",
                                      scratch.path() + "/" + results};
    for (const char* set :
         {"model.kind=moe", "model.experts=4", "boundary.forward=none", "boundary.backward=none",
          "outer.groups=2", "outer.algorithm=dp", "outer.inner_steps=0", "outer.codec=none"}) {
      words.insert(words.end(), {"--set", set});
    }
    for (const std::string& set : sets) words.insert(words.end(), {"--set", set});
    const CommandResult result = RunLonghaul(words);
    EXPECT_EQ(result.exit_status, 0) << result.output;
    const auto record = Record::Open(scratch.path() + "/" + results, Record::Mode::kRead);
    EXPECT_TRUE(record.ok()) << record.status();
    const auto rows = record->Rows("SELECT loss_nat FROM evaluations ORDER BY step DESC LIMIT 1");
    return std::stod((*rows)[1].front());
  };
  const double end = held_out("first", {"model.expert_parallel=2", "model.save=" + saved});
  EXPECT_TRUE(std::filesystem::exists(saved + "/model-00004-of-00004.safetensors"));
  const std::vector<std::string> from = {"model.init=" + index, "train.lr=1e-30", "train.steps=1"};
  std::vector<std::string> spread = from;
  spread.emplace_back("model.expert_parallel=2");
  EXPECT_EQ(held_out("second", spread), end);
  EXPECT_NEAR(held_out("third", from), end, 1e-5);
  EXPECT_LT(end, 5.5);
}

TEST(FinishedRun, AFolderThatCannotBeIsRefusedBeforeTraining) {
  const ScratchFolder scratch;
  const CommandResult result =
      RunLonghaul({"run", scratch.File("spec.toml", TinySpec()), "--results",
                   scratch.path() + "/results", "--set", "model.save=/dev/null/x"});
  EXPECT_NE(result.exit_status, 0);
  EXPECT_THAT(result.output, HasSubstr("the folder '/dev/null/x' cannot be made: Not a directory"));
  EXPECT_FALSE(std::filesystem::exists(scratch.path() + "/results"));
}

// Per-token losses of random weights, sharper than initial ones.
TEST_P(EveryKind, TransformersComputesTheSameLogits) {
  if (GetParam() == "gpt") GTEST_SKIP() << "transformers has no GPT-2 without biases";
  const std::string python = LONGHAUL_EXPORT_PYTHON;
  if (std::system((python + " -c 'import torch, transformers' >/dev/null 2>&1").c_str()) != 0) {
    GTEST_SKIP() << python << " has no torch and transformers: scripts/setup.sh test";
  }
  const RunSpec spec = Spec(GetParam());
  const std::unique_ptr<Stage> stage = StageOf(spec, 0, 1);
  stage->parameters().mul_(8);
  for (const ParameterSlot& slot : stage->layout().slots) {
    if (!slot.decays) stage->parameters().narrow(0, slot.offset, slot.elements()).div_(6);
  }
  ASSERT_TRUE(
      WriteModelWeights(scratch_.path(), spec, stage->parameters().const_data_ptr<float>()).ok());
  std::vector<int64_t> ids, targets;
  for (int64_t i = 0; i < 2 * spec.model.context; ++i) {
    ids.push_back(i * i % 61);
    targets.push_back((7 * i + 3) % 61);
  }
  const auto kept = stage->NewForwardActivations(2);
  std::vector<double> losses(ids.size());
  stage->Forward(ids, {}, {}, kept.get());
  stage->Loss(targets, 0, kept.get(), losses);
  std::ofstream(scratch_.path() + "/ours.json")
      << nlohmann::json{{"ids", ids}, {"targets", targets}, {"losses", losses}, {"rows", 2}};
  const std::string command =
      python + " " LONGHAUL_TRANSFORMERS_SCRIPT " " + scratch_.path() + " 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
}

std::string Refusal(const std::string& path, const RunSpec& spec) {
  const auto weights = ModelWeights::Open(path, spec);
  EXPECT_FALSE(weights.ok());
  const std::string message(weights.status().message());
  EXPECT_EQ(message.find('\n'), std::string::npos);
  return message;
}

TEST(ModelWeights, AnotherModelsAreRefusedWithBothShapes) {
  const ScratchFolder scratch;
  const RunSpec spec = Spec("llama");
  ASSERT_TRUE(WriteModelWeights(scratch.path(), spec,
                                StageOf(spec, 0, 1)->parameters().const_data_ptr<float>())
                  .ok());
  const std::string path = scratch.path() + "/model.safetensors";
  RunSpec other = spec;
  other.model.vocab = 64;
  EXPECT_THAT(Refusal(path, other),
              HasSubstr("'model.embed_tokens.weight' is [61, 32], and [model] makes it [64, 32]"));
  other = spec;
  other.model.kv_heads = 4;
  EXPECT_THAT(Refusal(path, other), HasSubstr("k_proj.weight' is [16, 32]"));
  other = spec;
  other.model.blocks = 5;
  EXPECT_THAT(Refusal(path, other), HasSubstr("no 'model.layers.4."));
  other.model.blocks = 3;
  EXPECT_THAT(Refusal(path, other), HasSubstr("which this model has not"));
  EXPECT_THAT(Refusal(path, Spec("moe")), HasSubstr("no 'model.layers.0.block_sparse_moe"));
  EXPECT_THAT(Refusal(scratch.path() + "/none", spec), HasSubstr("none"));
}

std::string ParseRefusal(const std::string& header, const std::string& data = "") {
  const uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), 8);
  file += header + data;
  const auto parsed = ParseSafetensors("x", std::as_bytes(std::span(file)));
  return parsed.ok() ? "" : std::string(parsed.status().message());
}

TEST(SafetensorsParser, OfAGgufItSaysWhatMakesSafetensorsOfIt) {
  const std::string_view file("GGUF\3\0\0\0\x10\1\0\0\0\0\0\0", 16);
  const auto parsed = ParseSafetensors("x", std::as_bytes(std::span(file)));
  EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("`longhaul import model FILE"));
}

TEST(SafetensorsParser, WhatIsNoFileOfTheFormatIsRefused) {
  const std::string f32 = R"("dtype":"F32","shape":[2])";
  EXPECT_EQ(ParseRefusal("{\"a\":{" + f32 + ",\"data_offsets\":[0,8]}}", std::string(8, 'x')), "");
  EXPECT_EQ(ParseRefusal("{}"), "");
  const auto refused = [&](const std::string& entry, const std::string& data) {
    return ParseRefusal("{\"a\":{" + entry + "}}", data);
  };
  const std::string eight(8, 'x');
  EXPECT_THAT(refused(f32 + R"(,"data_offsets":[0,9])", eight), HasSubstr("not within the 8"));
  EXPECT_THAT(refused(f32 + R"(,"data_offsets":[8,0])", eight), HasSubstr("not within"));
  EXPECT_THAT(refused(f32 + R"(,"data_offsets":[0,4])", eight), HasSubstr("do not take the 4"));
  EXPECT_THAT(refused(f32 + R"(,"data_offsets":[-8,0])", eight), HasSubstr("whole numbers"));
  EXPECT_THAT(refused(f32 + R"(,"data_offsets":[0.0,8])", eight), HasSubstr("whole numbers"));
  EXPECT_THAT(
      refused(R"("dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,0])", ""),
      HasSubstr("do not take"));
  EXPECT_THAT(refused(R"("dtype":"F31","shape":[2],"data_offsets":[0,8])", eight),
              HasSubstr("'F31' is unknown"));
  EXPECT_THAT(refused(f32, eight), HasSubstr("data_offsets"));
  EXPECT_THAT(ParseRefusal("[]"), HasSubstr("no JSON object"));
  EXPECT_THAT(ParseRefusal("{\"a\":"), HasSubstr("no JSON object"));
  const std::string a = "\"a\":{" + f32 + ",\"data_offsets\":[0,8]}";
  EXPECT_THAT(ParseRefusal("{" + a + "," + a + "}", eight), HasSubstr("'a' stands twice"));
  EXPECT_THAT(
      ParseRefusal("{" + a + ",\"b\":{" + f32 + ",\"data_offsets\":[4,12]}}", std::string(12, 'x')),
      HasSubstr("overlap"));
  EXPECT_THAT(
      ParseRefusal("{" + a + ",\"b\":{" + f32 + ",\"data_offsets\":[9,17]}}", std::string(17, 'x')),
      HasSubstr("gap"));
  EXPECT_THAT(ParseRefusal("{" + a + "}", std::string(12, 'x')), HasSubstr("end at byte 8 of 12"));
  std::string huge(8, '\xFF');
  EXPECT_THAT(std::string(ParseSafetensors("x", std::as_bytes(std::span(huge))).status().message()),
              HasSubstr("longer than the file"));
  EXPECT_FALSE(ParseSafetensors("x", std::as_bytes(std::span(huge).first(3))).ok());
}

TEST(SafetensorsParser, HalfPrecisionBecomesFloat) {
  const std::vector<uint16_t> f16 = {0x3C00, 0xC000, 0x0001, 0x7BFF, 0x8000, 0xFC00};
  std::vector<float> values(f16.size());
  ASSERT_TRUE(ConvertToFloat({"F16", {6}, std::as_bytes(std::span(f16))}, values).ok());
  EXPECT_THAT(values, testing::ElementsAre(1.0f, -2.0f, 0x1p-24f, 65504.0f, -0.0f, -INFINITY));
  const std::vector<uint16_t> bf16 = {0x3F80, 0xC0A0};
  values.resize(2);
  ASSERT_TRUE(ConvertToFloat({"BF16", {2}, std::as_bytes(std::span(bf16))}, values).ok());
  EXPECT_THAT(values, testing::ElementsAre(1.0f, -5.0f));
  EXPECT_FALSE(ConvertToFloat({"I32", {1}, std::as_bytes(std::span(bf16))}, values).ok());
}

}  // namespace
}  // namespace longhaul
