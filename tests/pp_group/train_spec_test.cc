// What a run must be beside its spec's own bounds; the text that says which run it is; and which of
// its lines another run's checkpoints must share.
#include "pp_group/train_spec.h"

#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pp_group/state/reshard.h"
#include "tests/pp_group/training.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

// Every number another one.
TrainSpec Distinct() {
  return {.model = {.blocks = 6, .width = 24, .heads = 4, .context = 16, .vocab = 256},
          .stages = 3,
          .groups = 2,
          .schedule = "gpipe",
          .microbatches = 5,
          .batch_rows = 10,
          .steps = 77,
          .inner = {.lr = 0.25,
                    .min_lr_fraction = 0.125,
                    .warmup_steps = 9,
                    .beta1 = 0.75,
                    .beta2 = 0.875,
                    .eps = 0.0625,
                    .weight_decay = 0.375,
                    .clip_norm = 1.5},
          .outer = {.inner_steps = 7, .lr = 0.625, .momentum = 0.5, .codec = "fp16"},
          .seed = 31};
}

TEST(CanonicalText, SaysEveryFieldByItsName) {
  const std::string optimizers =
      "groups=2\nmicrobatches=5\nbatch_rows=10\nsteps=77\nlr=0.25\nmin_lr_fraction=0.125\n"
      "warmup_steps=9\nbeta1=0.75\nbeta2=0.875\neps=0.0625\nweight_decay=0.375\nclip_norm=1.5\n";
  const std::string data =
      absl::StrCat("seed=31\ntrain_sha256=", SmallCorpus()->train_hash(), "\n");
  TrainSpec spec = Distinct();
  EXPECT_EQ(CanonicalText(spec, *SmallCorpus()),
            absl::StrCat("blocks=6\nwidth=24\nheads=4\ncontext=16\nvocab=256\nstages=3\n",
                         optimizers, "inner_steps=7\nouter_lr=0.625\nouter_momentum=0.5\n",
                         "outer_codec=fp16\n", data));
  spec.model.kind = "moe";
  spec.model.engine = "aten";
  spec.model.kv_heads = 2;
  spec.model.hidden = 40;
  spec.model.rope_theta = 500;
  spec.model.experts = 8;
  spec.model.capacity_factor = 1.25;
  spec.model.balance_loss = 0.5;
  spec.model.expert_parallel = 2;
  spec.stage_compute.dtype = "bfloat16";
  spec.cuts = {1, 4};
  spec.outer = {.inner_steps = 0, .lr = 0.625, .momentum = 0.5, .codec = "fp16", .algorithm = "dp"};
  spec.initial_hash = "abc";
  EXPECT_EQ(
      CanonicalText(spec, *SmallCorpus()),
      absl::StrCat("blocks=6\nwidth=24\nheads=4\ncontext=16\nvocab=256\n",
                   "kind=moe\nengine=aten\ndevice=cpu\ndtype=bfloat16\nkv_heads=2\nhidden=40\n",
                   "tied_head=0\nrope_theta=500\nexperts=8\ncapacity_factor=1.25\n",
                   "balance_loss=0.5\nexpert_parallel=2\nstages=3\ncuts=1,4\n", optimizers,
                   "inner_steps=0\nouter_lr=0.625\nouter_momentum=0.5\nouter_codec=fp16\n",
                   "outer_algorithm=dp\ninit_sha256=abc\n", data));
  // The class and its source, wherever the file lies.
  spec.outer.algorithm = "python:some/mine.py:Mine";
  spec.outer_source = "123abc";
  EXPECT_THAT(CanonicalText(spec, *SmallCorpus()),
              HasSubstr("outer_codec=fp16\nouter_algorithm=python:123abc:Mine\n"));
  // Doubles exactly: the next one is another run.
  spec.inner.lr = std::nextafter(0.25, 1);
  EXPECT_THAT(CanonicalText(spec, *SmallCorpus()), HasSubstr("lr=0.25000000000000006\n"));
}

TEST(FirstDifference, IsOfTheFirstLineThatDiffers) {
  EXPECT_EQ(FirstDifference("a=1\nb=2\nc=3\n", "a=1\nb=5\nc=4\n"), "'b=2' against 'b=5'");
  EXPECT_EQ(FirstDifference("a=1\n", "a=1\nb=2\n"), "'' against 'b=2'");
  EXPECT_EQ(FirstDifference("a=1\nb=2", "a=1"), "'b=2' against ''");
  EXPECT_EQ(FirstDifference("a=1\n", "a=1\n"), "none");
}

class Bounds : public testing::Test {
 protected:
  using Change = std::function<void(TrainSpec*)>;
  static absl::Status Of(const Change& change) {
    TrainSpec spec = Distinct();
    change(&spec);
    return CheckTrainSpec(spec, *SmallCorpus());
  }
  static void Inside(const Change& change) { EXPECT_EQ(Of(change), absl::OkStatus()); }
  static void Outside(const Change& change, const std::string& said) {
    const absl::Status status = Of(change);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << said << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(said));
  }
  // `set`: of one field; `inside` and `outside` it.
  static void Table(const std::function<void(TrainSpec*, double)>& set, const char* said,
                    const std::vector<double>& inside, const std::vector<double>& outside) {
    for (const double x : inside) {
      SCOPED_TRACE(absl::StrCat(said, " inside ", x));
      Inside([&](TrainSpec* s) { set(s, x); });
    }
    for (const double x : outside) {
      SCOPED_TRACE(absl::StrCat(said, " outside ", x));
      Outside([&](TrainSpec* s) { set(s, x); }, said);
    }
  }
};

const double kNan = std::nan("");

TEST_F(Bounds, OfWhatHangsOnTheRunAreWhereTheySay) {
  Inside([](TrainSpec* s) { s->outer.lr_warmup_rounds = 11; });
  Outside([](TrainSpec* s) { s->outer.lr_warmup_rounds = 12; }, "lr_warmup_rounds 12 of 11 rounds");
  const auto dp = [](int64_t warmup) {
    return [warmup](TrainSpec* s) {
      s->outer = {.inner_steps = 0, .algorithm = "dp", .warmup_steps = warmup};
    };
  };
  Inside(dp(77));
  Outside(dp(78), "outer warmup_steps 78 of 77 steps");
  Outside([](TrainSpec* s) { s->inner.optimizer = "onebit-adam"; }, "wants the other to be that");
  // T + 1 tokens are a window.
  const int64_t held_out = SmallCorpus()->held_out_tokens();
  Inside([&](TrainSpec* s) { s->model.context = held_out - 1; });
  Outside([&](TrainSpec* s) { s->model.context = held_out; }, "does not fit the corpus");
}

TEST_F(Bounds, OfModelsAreWhereTheySay) {
  const auto field = [](auto ModelSpec::*member) {
    return [member](TrainSpec* s, double x) {
      s->model.kind = "moe";
      s->model.engine = "aten";
      s->model.heads = 6;
      auto& value = s->model.*member;
      value = static_cast<std::decay_t<decltype(value)>>(x);
    };
  };
  Table(field(&ModelSpec::kv_heads), "kv_heads", {0, 1, 3, 6}, {-1, 4, 12});
  Table(field(&ModelSpec::hidden), "hidden", {0, 1}, {-1});
  Table(field(&ModelSpec::heads), "even number", {6, 12}, {8, 24});
  Table(field(&ModelSpec::rope_theta), "rope_theta", {1.001, 1e9}, {1, 0, -3, kNan});
  Table(field(&ModelSpec::experts), "experts", {2, 64}, {0, 1});
  Table(field(&ModelSpec::capacity_factor), "capacity_factor", {0, 999999}, {-1e-9, 1e6, kNan});
  Table(field(&ModelSpec::balance_loss), "balance_loss", {0, 999999}, {-1e-9, 1e6, kNan});
  Table(field(&ModelSpec::blocks), "blocks", {3, 6}, {0});
  Table(field(&ModelSpec::vocab), "vocab", {256}, {0, 255, 257});
}

TEST(LocalRanks, NeedTheBackendsOfTheirPlace) {
  const TrainSpec spec = SmallSpec(2, 3);
  const std::vector<LocalRank> good = MemoryRanks(spec);
  EXPECT_EQ(CheckLocalRanks(spec, *ProgramOf(spec), good), absl::OkStatus());
  const auto refusal = [&](size_t at, const std::function<void(LocalRank*)>& change,
                           bool elastic = false) {
    std::vector<LocalRank> ranks = good;
    change(&ranks[at]);
    return std::string(CheckLocalRanks(spec, *ProgramOf(spec), ranks, elastic).message());
  };
  EXPECT_THAT(std::string(CheckLocalRanks(spec, *ProgramOf(spec), {}).message()),
              HasSubstr("no local rank"));
  EXPECT_THAT(refusal(3, [](LocalRank* r) { r->group = 3; }),
              HasSubstr("group 3, stage 1: outside of 3 groups of 2 stages"));
  EXPECT_THAT(refusal(3, [](LocalRank* r) { r->group = -1; }), HasSubstr("outside"));
  EXPECT_THAT(refusal(3, [](LocalRank* r) { r->stage = 2; }), HasSubstr("outside"));
  EXPECT_THAT(refusal(3, [](LocalRank* r) { r->stage = -1; }), HasSubstr("outside"));
  EXPECT_THAT(refusal(2, [&](LocalRank* r) { *r = good[1]; }), HasSubstr("group 0, stage 1 twice"));
  EXPECT_THAT(refusal(2, [](LocalRank* r) { r->boundary = nullptr; }),
              HasSubstr("group 1, stage 0: no boundary backend"));
  EXPECT_THAT(refusal(2, [](LocalRank* r) { r->plain = nullptr; }), HasSubstr("no plain backend"));
  EXPECT_THAT(refusal(2, [](LocalRank* r) { r->outer = nullptr; }), HasSubstr("no outer backend"));
  EXPECT_EQ(refusal(
                2, [](LocalRank* r) { r->outer = nullptr; }, /*elastic=*/true),
            "");
  EXPECT_THAT(refusal(2, [&](LocalRank* r) { r->plain = good[3].plain; }),
              HasSubstr("plain backend is rank 1 of 2, want 0 of 2"));
  EXPECT_THAT(refusal(2, [&](LocalRank* r) { r->outer = good[0].outer; }),
              HasSubstr("outer backend is rank 0 of 3, want 1 of 3"));
  EXPECT_THAT(refusal(2, [](LocalRank* r) { r->boundary = NewMemoryGroup(3)[0]; }),
              HasSubstr("boundary backend is rank 0 of 3, want 0 of 2"));
}

// A checkpoint of which only the text matters here.
class LeftText : public testing::Test {
 protected:
  LeftText() : directory_(testing::TempDir() + "/left_text") {
    std::filesystem::remove_all(directory_);
    spec_.model.kind = "moe";
    spec_.model.engine = "aten";
    spec_.model.kv_heads = 2;
    spec_.model.hidden = 40;
    spec_.model.experts = 8;
    text_ = CanonicalText(spec_, *SmallCorpus());
  }
  ~LeftText() override { std::filesystem::remove_all(directory_); }

  absl::StatusOr<LeftCheckpoints> Open(const std::string& left, int64_t step) {
    std::filesystem::remove_all(directory_);
    const Checkpoint checkpoint{.step = step, .spec = left, .sections = {}};
    EXPECT_TRUE(WriteCheckpoint(directory_, checkpoint).ok());
    return LeftCheckpoints::Open(directory_, step, spec_, text_);
  }
  // The run's own text with another value of one field.
  std::string With(const std::string& name, const std::string& value) {
    const size_t at = ("\n" + text_).find("\n" + name + "=");
    EXPECT_NE(at, std::string::npos) << name;
    const size_t begin = at + name.size() + 1;
    return text_.substr(0, begin) + value + text_.substr(text_.find('\n', begin));
  }

  const std::string directory_;
  TrainSpec spec_ = Distinct();
  std::string text_;
};

TEST_F(LeftText, OfAnotherModelOrOtherDataIsRefusedWithBothValues) {
  EXPECT_TRUE(Open(text_, 7).ok());
  for (const char* name : {"blocks", "width", "heads", "context", "vocab", "kv_heads", "hidden",
                           "tied_head", "rope_theta", "experts", "kind", "train_sha256"}) {
    const absl::Status status = Open(With(name, "3"), 7).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << name << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat(name, " = 3, and")));
  }
  for (const char* name : {"microbatches", "batch_rows", "steps", "lr", "seed", "beta1", "outer_lr",
                           "outer_codec", "balance_loss", "dtype"}) {
    const auto left = Open(With(name, "3"), 7);
    ASSERT_TRUE(left.ok()) << left.status();
    EXPECT_THAT(left->changes(), testing::StartsWith(absl::StrCat(name, "=3 > ")));
    EXPECT_EQ(left->changes().find(','), std::string::npos) << left->changes();
  }
}

TEST_F(LeftText, OfOtherGroupsIsTakenWhereTheyAgreed) {
  const std::string three = absl::StrReplaceAll(text_, {{"groups=2\n", "groups=3\n"}});
  for (const auto& [step, agreed] :
       {std::pair{6, false}, {7, true}, {8, false}, {14, true}, {76, false}, {77, true}}) {
    EXPECT_EQ(Open(three, step).ok(), agreed) << "step " << step;
    EXPECT_TRUE(Open(text_, step).ok()) << "as many groups as there were";
  }
  // Its own last step, which was no multiple of H.
  const std::string shorter = absl::StrReplaceAll(three, {{"steps=77\n", "steps=10\n"}});
  EXPECT_TRUE(Open(shorter, 10).ok());
  EXPECT_FALSE(Open(shorter, 9).ok());
  const std::string without = absl::StrReplaceAll(three, {{"inner_steps=7\n", "inner_steps=0\n"}});
  EXPECT_TRUE(Open(without, 9).ok()) << "data parallel groups always agree";
}

TEST_F(LeftText, OfALaterStepThanTheLastIsRefused) {
  EXPECT_TRUE(Open(text_, 77).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Open(text_, 78).status()));
}

TEST_F(LeftText, ThatSaysNoStagesIsDamage) {
  for (const char* stages : {"0", "4", "", "-1"}) {
    EXPECT_TRUE(absl::IsDataLoss(Open(With("stages", stages), 7).status())) << stages;
  }
  EXPECT_TRUE(absl::IsDataLoss(Open(With("groups", "0"), 7).status()));
  EXPECT_TRUE(absl::IsDataLoss(Open(text_ + "cuts=1\n", 7).status())) << "three stages, one cut";
  EXPECT_TRUE(Open(text_ + "cuts=1,5\n", 7).ok());
}

}  // namespace
}  // namespace longhaul
