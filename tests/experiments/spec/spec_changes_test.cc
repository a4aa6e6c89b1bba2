#include "experiments/spec/spec_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/experiments/spec/specs.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

RunSpec Resolved(const std::vector<std::string>& sets) { return *ReadWith(sets); }

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
  EXPECT_THAT(SpecChanges(Resolved({}), Resolved({"outer.fragments=1"})),
              ElementsAre(SpecChange{"outer.fragments", "-", "1"}));
  EXPECT_THAT(SpecChanges(Resolved({"outer.fragments=1"}), Resolved({})),
              ElementsAre(SpecChange{"outer.fragments", "1", "-"}));
}

TEST(SpecChanges, StagesAndBoundaryCodecsAloneMayDifferUnderAQ) {
  const std::vector<std::string> booked = {"schedule.stages=4",
                                           "boundary.forward=none",
                                           "boundary.backward=int4-b64-h64",
                                           "boundary.mask_gradients=true",
                                           "boundary.warmup_steps=3",
                                           "schedule.cuts=[2, 4, 6]"};
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
  const auto with = [](std::vector<int64_t> kills) {
    RunSpec spec = Resolved({});
    for (const int64_t at : kills) spec.faults.push_back({.at_step = at});
    return spec;
  };
  EXPECT_THAT(SpecChanges(with({3, 3}), with({3, 5})),
              ElementsAre(SpecChange{"fault[1].at_step", "3", "5"}));
  EXPECT_EQ(SpecChanges(with({3}), with({3, 5})).size(), 3u) << "what, where, at_step";
}

}  // namespace
}  // namespace longhaul
