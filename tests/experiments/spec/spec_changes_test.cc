#include "experiments/spec/spec_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/experiments/spec/specs.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string Resolved(const std::vector<std::string>& sets) {
  TomlValue root = *ParseToml(kRunToml, "run.toml");
  for (const std::string& set : sets) EXPECT_TRUE(SetByPath(root, set).ok());
  return ToToml(*ReadRunSpec(root, TestNames()));
}

TEST(SpecChanges, NameTheKeysThatDifferWithBothValues) {
  EXPECT_THAT(SpecChanges(Resolved({}), Resolved({})), IsEmpty());
  EXPECT_THAT(SpecChanges(Resolved({}), Resolved({"train.lr=2e-3", "model.width=128"})),
              ElementsAre(SpecChange{"model.width", "64", "128"},
                          SpecChange{"train.lr", "0.003", "0.002"}));
}

TEST(SpecChanges, SameKeyInAnotherTableIsAnotherKey) {
  EXPECT_THAT(SpecChanges(Resolved({}), Resolved({"outer.lr=0.5"})),
              ElementsAre(SpecChange{"outer.lr", "0.7", "0.5"}));
}

TEST(SpecChanges, SeedsArePairedAndNoChange) {
  EXPECT_THAT(SpecChanges(Resolved({}), Resolved({"seed=7"})), IsEmpty());
}

TEST(SpecChanges, KeyOfOneSpecAloneIsAChange) {
  EXPECT_THAT(SpecChanges("[a]\nx = 1\n", "[a]\nx = 1\ny = 2\n"),
              ElementsAre(SpecChange{"a.y", "-", "2"}));
  EXPECT_THAT(SpecChanges("[a]\nx = 1\ny = 2\n", "[a]\nx = 1\n"),
              ElementsAre(SpecChange{"a.y", "2", "-"}));
}

TEST(SpecChanges, StagesAndBoundaryCodecsAloneMayDifferUnderAQ) {
  const std::vector<std::string> booked = {"schedule.stages=4", "boundary.forward=none",
                                           "boundary.backward=none",
                                           "boundary.mask_gradients=true"};
  EXPECT_THAT(ChangesBesideCodecs(Resolved({}), Resolved(booked)), IsEmpty());
  for (const char* set : {"train.lr=2e-3", "train.clip_norm=0.25", "schedule.kind=gpipe",
                          "boundary.nmse_every=0", "train.warmup_steps=5", "eval.rows=65",
                          "limits.threads=2", "data.source=text:/x", "train.tokens=400001"}) {
    EXPECT_EQ(ChangesBesideCodecs(Resolved({}), Resolved({set})).size(), 1u) << set;
  }
}

TEST(SpecChanges, AsText) {
  EXPECT_EQ(ToString(SpecChanges(Resolved({}), Resolved({"train.lr=2e-3", "eval.rows=65"}))),
            "train.lr 0.003 > 0.002, eval.rows 64 > 65");
}

TEST(CompressedCrossings, AreSMinusOnePerCompressedDirection) {
  EXPECT_EQ(CompressedCrossings(8, "int4-b64", "int8-b64"), 14);
  EXPECT_EQ(CompressedCrossings(8, "int4-b64", "none"), 7);
  EXPECT_EQ(CompressedCrossings(8, "none", "int8-b64"), 7);
  EXPECT_EQ(CompressedCrossings(8, "none", "none"), 0);
  EXPECT_EQ(CompressedCrossings(1, "int4-b64", "int8-b64"), 0);
  EXPECT_EQ(CompressedCrossings(4, "identity", "identity"), 6);
}

TEST(SpecChanges, TablesOfAnArrayAreToldApart) {
  const std::string one = "[[fault]]\nwhat = \"kill\"\nat_step = 3\n";
  const std::string two = "[[fault]]\nwhat = \"kill\"\nat_step = 5\n";
  const auto changes = SpecChanges(one + one, one + two);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].key, "fault[1].at_step");
  EXPECT_EQ(changes[0].from, "3");
  EXPECT_EQ(changes[0].to, "5");
  EXPECT_EQ(SpecChanges(one, one + two).size(), 2u);
}

}  // namespace
}  // namespace longhaul
