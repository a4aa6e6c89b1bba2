#include "experiments/spec/spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/experiments/spec/specs.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

absl::StatusOr<RunSpec> Read(std::string text, const std::vector<std::string>& sets = {}) {
  absl::StatusOr<TomlValue> root = ParseToml(text, "demo.toml");
  if (!root.ok()) return root.status();
  for (const std::string& set : sets) {
    if (absl::Status s = SetByPath(*root, set); !s.ok()) return s;
  }
  return ReadRunSpec(*root, TestNames());
}

std::string Error(std::string text, const std::vector<std::string>& sets = {}) {
  const absl::StatusOr<RunSpec> spec = Read(std::move(text), sets);
  EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(spec.status().message());
}

std::string Replaced(std::string_view from, std::string_view to) {
  std::string text = kRunToml;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Spec, ReadsEveryTableAndTheDefaultsOfTheField) {
  const absl::StatusOr<RunSpec> spec = Read(kRunToml);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->seed, 1);
  EXPECT_EQ(spec->model.blocks, 8);
  EXPECT_EQ(spec->schedule.kind, "1f1b");
  EXPECT_EQ(spec->boundary.forward, "int4-b64-h64");
  EXPECT_EQ(spec->net.profile, "continental-us");
  EXPECT_EQ(spec->train.weight_decay, 0.1);
  EXPECT_EQ(spec->outer.groups, 1);
  EXPECT_EQ(spec->limits.threads, 1);
}

TEST(Spec, TokensBecomeWholeStepsOverAllGroups) {
  const absl::StatusOr<RunSpec> one = Read(kRunToml);
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(TokensPerStep(*one), 16 * 128);
  EXPECT_EQ(Steps(*one), 195);  // 400000 / 2048 = 195.3
  EXPECT_EQ(TrainTokens(*one), 195 * 2048);
  const absl::StatusOr<RunSpec> two =
      Read(kRunToml, {"outer.groups=2", "outer.inner_steps=10", "outer.codec=none"});
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ(Steps(*two), 98);  // 400000 / 4096 = 97.7
}

TEST(Spec, ResolvedTextReadsBackToItself) {
  const absl::StatusOr<RunSpec> spec =
      Read(kRunToml, {"train.eps=1e-30", "train.clip_norm=inf", "train.lr=0.1", "outer.groups=3",
                      "outer.inner_steps=7", "outer.codec=int8-b64", "net.emulator=tap",
                      "data.source=text:/a \"b\"\\c", "checkpoint.every_steps=5"});
  ASSERT_TRUE(spec.ok()) << spec.status();
  const std::string text = ToToml(*spec);
  const absl::StatusOr<RunSpec> again = Read(text);
  ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
  EXPECT_EQ(ToToml(*again), text);
  EXPECT_EQ(again->train.eps, 1e-30);
  EXPECT_EQ(again->data.source, "text:/a \"b\"\\c");
  EXPECT_EQ(again->outer.groups, 3);
}

TEST(Spec, UnknownKeyBeatsTheMissingOneItWasMeantToBe) {
  EXPECT_EQ(Error(Replaced("forward =", "forwrad =")),
            "demo.toml:20: unknown key 'boundary.forwrad'; known: backward, capture, cuts, "
            "forward, mask_gradients, nmse_every, policy, subspace, warmup_steps");
  EXPECT_THAT(Error(Replaced("[boundary]", "[bounday]")),
              HasSubstr("demo.toml:19: unknown key 'bounday'; known: boundary, "));
}

TEST(Spec, MissingKeyNamesTableAndLine) {
  EXPECT_EQ(Error(Replaced("forward = \"int4-b64-h64\"\n", "")),
            "demo.toml:19: 'boundary.forward' is missing");
  EXPECT_EQ(Error(Replaced("[eval]\nrows = 64\n", "")), "demo.toml: 'eval.rows' is missing");
}

TEST(Spec, WrongTypeSaysWhatItIsAndWhatIsWanted) {
  EXPECT_EQ(Error(Replaced("blocks = 8", "blocks = \"8\"")),
            "demo.toml:4: 'model.blocks' is a string, want an integer");
  EXPECT_EQ(Error(Replaced("stages = 2", "stages = 2.0")),
            "demo.toml:18: 'schedule.stages' is a float, want an integer");
  EXPECT_EQ(Error("seed = 1\nmodel = 3\n"), "demo.toml:2: 'model' is an integer, want a table");
}

TEST(Spec, UnknownNamesListTheKnownOnes) {
  EXPECT_EQ(
      Error(Replaced("int8-b64", "int9")),
      "demo.toml:21: 'boundary.backward': unknown codec 'int9'; known: none, identity, int8-b64, "
      "int4-b64-h64");
  EXPECT_THAT(Error(kRunToml, {"net.profile=mars"}),
              HasSubstr("--set net.profile=mars: 'net.profile': unknown profile 'mars'"));
  EXPECT_EQ(Error(Replaced("1f1b", "zb-h1")),
            "demo.toml:17: 'schedule.kind': unknown schedule 'zb-h1'; known: gpipe, 1f1b, zigzag");
  EXPECT_TRUE(Read(Replaced("\"1f1b\"", "\"zigzag\"")).ok());
}

TEST(Spec, WhatCannotBeRunIsRefusedAtItsLine) {
  EXPECT_EQ(Error(Replaced("stages = 2", "stages = 3")),
            "demo.toml:18: 'schedule.stages' = 3 does not divide model.blocks = 8");
  EXPECT_EQ(Error(Replaced("microbatches = 4", "microbatches = 3")),
            "demo.toml:14: 'train.microbatches' = 3 does not divide train.batch_rows = 16");
  EXPECT_THAT(Error(kRunToml, {"train.steps=5"}), HasSubstr("exactly one of"));
  EXPECT_THAT(Error(kRunToml, {"outer.groups=2"}), HasSubstr("'outer.inner_steps' must be"));
  EXPECT_THAT(Error(kRunToml, {"outer.inner_steps=2"}), HasSubstr("'outer.codec' is missing"));
  EXPECT_THAT(Error(kRunToml, {"train.lr=nan"}),
              HasSubstr("'train.lr' is nan; want 1e-30 to 1e+30"));
  EXPECT_THAT(Error(kRunToml, {"model.heads=5"}), HasSubstr("does not divide model.width"));
  EXPECT_THAT(Error(kRunToml, {"seed=-1"}), HasSubstr("'seed' is -1; want 0 or more"));
  EXPECT_THAT(Error(kRunToml, {"data.source=web"}), HasSubstr("known: headers, text:PATH"));
  EXPECT_THAT(Error(Replaced("profile = \"continental-us\"\n", "")),
              HasSubstr("'net.profile' is missing (needed with"));
}

TEST(Spec, ModelsHaveTheirOwnKeysAndDevicesTheirEngine) {
  const std::vector<std::string> moe = {"model.kind=moe",           "model.kv_heads=2",
                                        "model.experts=4",          "model.capacity_factor=1.25",
                                        "train.device=cuda:1",      "train.dtype=bfloat16",
                                        "train.recompute=true",     "train.attention=fused",
                                        "data.eval=tokens32:e.bin", "model.vocab=128000"};
  const absl::StatusOr<RunSpec> spec = Read(kRunToml, moe);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->model.experts, 4);
  EXPECT_EQ(spec->train.device, "cuda:1");
  EXPECT_EQ(spec->train.attention, "fused");
  const auto attention = [](const std::vector<std::string>& sets) {
    return Read(kRunToml, sets)->train.attention;
  };
  EXPECT_EQ(attention({"train.device=cuda", "train.dtype=bfloat16"}), "fused");
  EXPECT_EQ(attention({"train.device=cuda", "train.dtype=bfloat16", "train.attention=math"}),
            "math");
  EXPECT_EQ(attention({"train.device=cuda"}), "math");
  EXPECT_EQ(attention({"train.dtype=bfloat16"}), "math") << "a CPU has no choice";
  EXPECT_THAT(Error(kRunToml, {"train.attention=fused"}),
              HasSubstr("'train.attention' = \"fused\" chooses a GPU's kernel"));
  const absl::StatusOr<RunSpec> again = Read(ToToml(*spec));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(ToToml(*again), ToToml(*spec));
  EXPECT_THAT(Error(kRunToml, {"model.kv_heads=2"}),
              HasSubstr("is of llama and moe, not of model.kind = \"gpt\""));
  EXPECT_THAT(Error(kRunToml, {"model.kind=llama", "model.experts=4"}),
              HasSubstr("is of moe, not of model.kind = \"llama\""));
  EXPECT_THAT(Error(kRunToml, {"model.kind=llama", "model.kv_heads=3"}),
              HasSubstr("= 3 does not divide model.heads = 4"));
  EXPECT_THAT(Error(kRunToml, {"model.kind=rwkv"}), HasSubstr("gpt, llama, moe"));
  EXPECT_THAT(Error(kRunToml, {"model.engine=cpu", "train.dtype=bfloat16"}),
              HasSubstr("needs model.engine = \"aten\" or \"auto\""));
  EXPECT_THAT(Error(kRunToml, {"data.eval=headers"}), HasSubstr("known: text:PATH"));
}

TEST(Spec, APipelineWithoutAFlushIsOfOneProcessAndWholeRounds) {
  SpecNames names = TestNames();
  names.schedule = [](std::string_view) { return absl::OkStatus(); };
  const auto error = [&](std::vector<std::string> sets) {
    sets.push_back("schedule.kind=1f1b-async");
    TomlValue root = *ParseToml(kRunToml, "demo.toml");
    for (const std::string& set : sets) EXPECT_TRUE(SetByPath(root, set).ok()) << set;
    return std::string(ReadRunSpec(root, names).status().message());
  };
  EXPECT_EQ(error({"net.transport=loopback"}), "");
  EXPECT_THAT(
      error({"net.transport=ucx"}),
      HasSubstr("'schedule.kind' = \"1f1b-async\" is never flushed: the engine computes its "
                "weights, not its times"));
  EXPECT_THAT(error({"net.transport=loopback", "model.kind=llama", "model.tied_head=true"}),
              HasSubstr("never flushed: a tied head"));
  EXPECT_THAT(error({"net.transport=loopback", "outer.groups=2", "outer.algorithm=streaming",
                     "outer.inner_steps=4", "outer.codec=none"}),
              HasSubstr("never flushed: the outer algorithm overlaps"));
  EXPECT_THAT(error({"net.transport=loopback", "schedule.chunks=2"}),
              HasSubstr("is of 1 chunks (stages of a rank), not of 2"));
}

TEST(Spec, SpreadExpertsNeedDataParallelGroups) {
  const auto with = [](const std::vector<std::string>& sets) {
    std::vector<std::string> all = {"model.kind=moe",         "model.experts=4",
                                    "outer.groups=2",         "outer.algorithm=dp",
                                    "outer.codec=none",       "net.transport=loopback",
                                    "model.expert_parallel=2"};
    all.insert(all.end(), sets.begin(), sets.end());
    return all;
  };
  const auto error = [&](const std::vector<std::string>& sets) {
    return Error(kRunToml, with(sets));
  };
  const absl::StatusOr<RunSpec> spec = Read(kRunToml, with({}));
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->model.expert_parallel, 2);
  EXPECT_TRUE(Read(kRunToml, with({"net.transport=ucx", "train.device=cuda"})).ok());
  EXPECT_THAT(error({"model.expert_parallel=0"}),
              HasSubstr("'model.expert_parallel' is 0; want 1 to"));
  EXPECT_THAT(error({"model.experts=5"}),
              HasSubstr("'model.expert_parallel' = 2 does not divide model.experts = 5"));
  EXPECT_THAT(Error(kRunToml, {"model.kind=llama", "model.expert_parallel=2"}),
              HasSubstr("is of moe, not of model.kind = \"llama\""));
  EXPECT_THAT(error({"model.engine=cpu"}),
              HasSubstr("'model.expert_parallel' needs model.engine = \"aten\" or \"auto\""));
  EXPECT_THAT(error({"outer.algorithm=diloco", "outer.inner_steps=2"}),
              HasSubstr("= 2 needs outer.algorithm = \"dp\""));
  EXPECT_THAT(error({"outer.groups=4"}), HasSubstr("= 2 with outer.groups = 4; want 1 or 4"));
  EXPECT_THAT(error({"outer.groups=1"}), HasSubstr("= 2 with outer.groups = 1"));
  EXPECT_THAT(error({"boundary.capture=x"}), HasSubstr("boundary.capture; leave one of them out"));
  EXPECT_THAT(error({"train.device=cuda"}), HasSubstr("on a GPU needs net.transport = \"ucx\""));
}

TEST(Spec, LoopbackNeedsNoProfileAndKeepsAGivenOne) {
  const absl::StatusOr<RunSpec> spec = Read(kRunToml, {"net.transport=loopback"});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->net.profile, "continental-us");
}

TEST(Spec, SyntaxErrorHasALine) {
  EXPECT_THAT(Error("seed = 1\nmodel = = 2\n"), HasSubstr("demo.toml:2: "));
}

TEST(SetByPath, ReadsTomlAndTakesTheRestAsText) {
  TomlValue root{TomlValue::Table{}, "x"};
  ASSERT_TRUE(SetByPath(root, "a.b = 3").ok());
  ASSERT_TRUE(SetByPath(root, "a.c=int4-b64-h64").ok());
  ASSERT_TRUE(SetByPath(root, "a.d=\"7\"").ok());
  ASSERT_TRUE(SetByPath(root, "a.e=2026-01-01").ok());
  EXPECT_EQ(std::get<int64_t>(Find(root, "a.b")->value), 3);
  EXPECT_EQ(std::get<std::string>(Find(root, "a.c")->value), "int4-b64-h64");
  EXPECT_EQ(std::get<std::string>(Find(root, "a.d")->value), "7");
  EXPECT_EQ(std::get<std::string>(Find(root, "a.e")->value), "2026-01-01");
  EXPECT_FALSE(SetByPath(root, "a.b.z=1").ok());
  EXPECT_FALSE(SetByPath(root, "novalue").ok());
  EXPECT_FALSE(SetByPath(root, "a..b=1").ok());
}

}  // namespace
}  // namespace longhaul
