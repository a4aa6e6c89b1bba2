// [boundary.policy], the boundaries' warm-up, and codecs that remember samples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "experiments/spec/campaign.h"
#include "experiments/spec/known_names.h"
#include "experiments/spec/spec_changes.h"
#include "tests/experiments/spec/specs.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> kAccuracy = {
    "boundary.forward=none", "boundary.policy.by=accuracy", "boundary.policy.target_nmse=0.01",
    "boundary.policy.forward=[\"int4-b64-h64\", \"int8-b64\", \"none\"]"};

std::vector<std::string> Accuracy(std::vector<std::string> more) {
  more.insert(more.begin(), kAccuracy.begin(), kAccuracy.end());
  return more;
}

TEST(BoundaryPolicy, IsReadWrittenAndNamedInTheRecord) {
  const auto spec = ReadWith(kAccuracy);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(spec->boundary.policy->forward, ElementsAre("int4-b64-h64", "int8-b64", "none"));
  const std::string text = ToToml(*spec);
  EXPECT_THAT(text,
              HasSubstr("\n[boundary.policy]\nby = \"accuracy\"\nforward = [\"int4-b64-h64\", "
                        "\"int8-b64\", \"none\"]\ntarget_nmse = 0.01\n"));
  EXPECT_EQ(ToToml(*ReadRunSpec(*ParseToml(text, "again"), TestNames())), text);
  EXPECT_EQ(CodecText(*spec).forward, "by accuracy: int4-b64-h64, int8-b64, none");
  EXPECT_EQ(CodecText(*spec).backward, "int8-b64");
  EXPECT_EQ(CompressedCrossings(*spec), 2);
  EXPECT_EQ(CodecsOf(*spec, 0).forward, "none") << "what it is planned with";
  EXPECT_THAT(ChangesBesideCodecs(*ReadWith({}), *spec), testing::IsEmpty());
  EXPECT_THAT(ToToml(*ReadWith({})), Not(HasSubstr("policy")));
}

TEST(BoundaryPolicy, WhatCannotBeIsRefusedInOneLine) {
  const auto refused = [](std::vector<std::string> sets, const std::string& why) {
    EXPECT_THAT(ErrorWith(Accuracy(std::move(sets))), HasSubstr(why));
  };
  refused({"boundary.policy.by=weather"}, "'boundary.policy.by' is 'weather'; known: ");
  refused({"boundary.policy.forward=[\"int8-b64\"]"}, "has 1 codecs; want 2 to 16");
  refused({"boundary.policy.forward=[\"int8-b64\", \"int5\"]"}, "unknown codec 'int5'");
  refused({"boundary.forward=int8-b64"},
          "stands beside boundary.forward = 'int8-b64'; want 'none'");
  refused({"boundary.policy.target_nmse=0"}, "want 1e-12 to 1");
  refused({"boundary.policy.target_nmse=nan"}, "want 1e-12 to 1");
  refused({"boundary.policy.target_ms=3"}, "is of by = \"bandwidth\", and by is \"accuracy\"");
  refused({"boundary.policy.by=magnitude"}, "'boundary.policy.bounds' is missing");
  refused({"boundary.policy.wether=1"}, "unknown key 'boundary.policy.wether'");
  refused(
      {"outer.groups=2", "outer.inner_steps=5", "outer.codec=none", "outer.on_group_loss=continue"},
      "knows no groups that come and go");
  refused({"boundary.backward=none", "boundary.cuts.0.forward=int8-b64"}, "stands beside");
  refused({"compute.forward_s=0.1", "compute.backward_s=0.1"}, "looks at tensors");
  const std::vector<std::string> magnitude = {"boundary.forward=none",
                                              "boundary.policy.by=magnitude",
                                              "boundary.policy.forward=[\"int8-b64\", \"none\"]"};
  const auto bounds = [&](const std::string& list) {
    std::vector<std::string> sets = magnitude;
    sets.push_back("boundary.policy.bounds=" + list);
    return ReadWith(sets).ok() ? std::string() : ErrorWith(sets);
  };
  EXPECT_EQ(bounds("[0.5]"), "");
  EXPECT_THAT(bounds("[0.5, 0.7]"), HasSubstr("has 2 values; want one between each two of the 2"));
  EXPECT_THAT(bounds("[-1.0]"), HasSubstr("want ascending root mean squares"));
  EXPECT_THAT(bounds("[nan]"), HasSubstr("want ascending root mean squares"));
  // A link must be there to read: links, or a clock that has them.
  const std::vector<std::string> bandwidth = {
      "boundary.forward=none", "boundary.policy.by=bandwidth", "boundary.policy.target_ms=5",
      "boundary.policy.forward=[\"int8-b64\", \"none\"]"};
  EXPECT_TRUE(ReadWith(bandwidth).ok());
  std::vector<std::string> without = bandwidth;
  without.emplace_back("net.transport=loopback");
  EXPECT_THAT(ErrorWith(without),
              HasSubstr("'boundary.policy.by' = \"bandwidth\" needs links: net.transport = "
                        "\"loopback\" has none; want \"ucx\", or net.clock = \"simulated\""));
}

TEST(BoundaryWarmUp, LeavesStepsToCodecs) {
  EXPECT_EQ(*ReadWith({"boundary.warmup_steps=7"})->boundary.warmup_steps, 7);
  EXPECT_THAT(ToToml(*ReadWith({})), Not(HasSubstr("[boundary]\nwarmup_steps")));
  const std::string steps = std::to_string(Steps(*ReadWith({})));
  EXPECT_THAT(ErrorWith({"boundary.warmup_steps=" + steps}),
              HasSubstr("leaves none to the codecs"));
  EXPECT_THAT(
      ErrorWith({"boundary.warmup_steps=1", "boundary.forward=none", "boundary.backward=none"}),
      HasSubstr("has no codec to begin with"));
  EXPECT_THAT(ErrorWith({"boundary.warmup_steps=1", "schedule.kind=zigzag", "schedule.stages=4",
                         "schedule.chunks=2"}),
              HasSubstr("with schedule.chunks = 2 those have several boundaries"));
}

TEST(BoundarySamples, AreActivationsOfOneRow) {
  const auto read = [](const std::vector<std::string>& sets) {
    TomlValue root = *ParseToml(kRunToml, "demo.toml");
    EXPECT_TRUE(SetByPath(root, "boundary.forward=aqsgd4").ok());
    for (const std::string& set : sets) EXPECT_TRUE(SetByPath(root, set).ok()) << set;
    return std::string(ReadRunSpec(root, CatalogNames()).status().message());
  };
  EXPECT_EQ(read({"train.microbatches=16"}), "");
  EXPECT_THAT(read({}),
              HasSubstr("'boundary.forward' has 'aqsgd4', which remembers samples, so that "
                        "a micro-batch must be one row: train.microbatches = 4, "
                        "train.batch_rows = 16; want 16"));
  EXPECT_THAT(read({"train.microbatches=16", "boundary.backward=aqsgd8"}),
              HasSubstr("'boundary.backward' has 'aqsgd8', which remembers a sample's activation"));
}

TEST(BoundarySubspace, WhatItCannotGoWithIsOneLine) {
  const auto with = [](std::vector<std::string> sets) {
    sets.insert(sets.begin(), "boundary.subspace=16");
    return ErrorWith(sets);
  };
  EXPECT_THAT(ErrorWith({"boundary.subspace=0"}), HasSubstr("'boundary.subspace' is 0; want 1 to"));
  const std::string above = std::to_string(ReadWith({})->model.width + 1);
  EXPECT_THAT(with({"boundary.subspace=" + above}),
              HasSubstr("= " + above + " has more dimensions than model.width ="));
  EXPECT_THAT(with({"model.kind=moe"}), HasSubstr("for model.kind = gpt and llama, not for moe"));
  EXPECT_THAT(with({"model.kind=llama", "model.tied_head=true"}),
              HasSubstr("want a head of its own"));
  EXPECT_THAT(with({"model.init=weights"}), HasSubstr("do not lie in a subspace"));
  EXPECT_THAT(with({"compute.forward_s=0.1", "compute.backward_s=0.1"}),
              HasSubstr("nothing is trained in a subspace"));
  EXPECT_THAT(with({"train.dtype=bfloat16"}), HasSubstr("not \"cpu\" and bfloat16"));
}

}  // namespace
}  // namespace longhaul
