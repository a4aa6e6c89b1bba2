// The executor on programs that the trainer does not make yet: several stages a rank, a split
// backward whose W come in any order.
#include "pp_group/executor.h"

#include <set>

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plugin/core/tensor_kind.h"
#include "pp_group/schedule/check.h"
#include "pp_group/schedule/csv.h"
#include "tests/pp_group/memory_backend.h"

namespace longhaul {
namespace {

static_assert(kActivationTag == KindTag(TensorKind::kActivation, 0));
static_assert(kGradientTag == KindTag(TensorKind::kGradient, 0));

class Slot : public Activations {
 public:
  int microbatch = -1;  // whose forward is kept here
};

// y = x + 1 and dx = dy + 1 where it has neighbours; on stage 0 y is the first token, on the last
// stage dx is x's negative. Says what it was asked, in order.
class CountingStage : public Stage {
 public:
  CountingStage(int stage, int stages) {
    layout_.stage = stage;
    layout_.stages = stages;
  }
  const StageLayout& layout() const override { return layout_; }
  const StageShape& shape() const override { return shape_; }
  bool trains() const override { return true; }
  const at::Tensor& parameters() const override { return none_; }
  const at::Tensor& gradients() const override { return none_; }
  void ZeroGradients() override {}
  std::unique_ptr<Activations> NewActivations(int64_t) const override {
    ++slots;
    return std::make_unique<Slot>();
  }
  void Forward(std::span<const int64_t> tokens, const at::Tensor& x, const at::Tensor& y,
               Activations* kept) override {
    static_cast<Slot*>(kept)->microbatch = forwards_++;
    if (x.defined()) inputs.insert(x.data_ptr());
    if (y.defined()) outputs.insert(y.data_ptr());
    if (layout_.first()) y.fill_(static_cast<double>(tokens[0]));
    if (!layout_.first() && !layout_.last()) y.copy_(x + 1);
    if (layout_.last()) last_x_[forwards_ - 1] = x.clone();
  }
  void Loss(std::span<const int64_t>, float, Activations*, std::span<double> losses) override {
    std::fill(losses.begin(), losses.end(), last_x_[forwards_ - 1][0][0].item<double>());
  }
  void BackwardInput(std::span<const int64_t>, const at::Tensor& dy, const at::Tensor& dx,
                     Activations* kept) override {
    const int m = static_cast<Slot*>(kept)->microbatch;
    calls.push_back(absl::StrCat("I", m));
    if (layout_.last()) dx.copy_(-last_x_[m]);
    if (!layout_.last() && !layout_.first()) dx.copy_(dy + 1);
    if (layout_.first()) arrived.push_back(dy[0][0].item<double>());
  }
  void BackwardWeight(Activations* kept) override {
    calls.push_back(absl::StrCat("W", static_cast<Slot*>(kept)->microbatch));
  }

  mutable int slots = 0;
  std::vector<std::string> calls;
  std::vector<double> arrived;  // gradients, on stage 0
  std::set<void*> inputs, outputs;

 private:
  StageLayout layout_{};
  const StageShape shape_{.context = 2, .width = 3, .vocab = 100};
  const at::Tensor none_;
  int forwards_ = 0;
  std::map<int, at::Tensor> last_x_;
};

struct Outcome {
  std::vector<std::unique_ptr<CountingStage>> stages;
  double loss_sum = 0;
};

enum class Boundaries { kApart, kShared };

// One step of M micro-batches; micro-batch m's first token is 10 (m + 1).
Outcome RunStep(const std::string& csv, Boundaries boundaries = Boundaries::kApart) {
  const PipelineProgram program = *ParseScheduleCsv(csv, CsvFormat::kComputeOnly);
  EXPECT_TRUE(CheckProgram(program).ok()) << CheckProgram(program);
  EXPECT_TRUE(CheckMicrobatchOrder(program).ok()) << CheckMicrobatchOrder(program);
  Outcome out;
  for (int s = 0; s < program.num_stages(); ++s) {
    out.stages.push_back(std::make_unique<CountingStage>(s, program.num_stages()));
  }
  const std::function<absl::Duration()> now = [] { return absl::ZeroDuration(); };
  const auto group = NewMemoryGroup(program.num_ranks());
  std::vector<int64_t> rows;
  for (int m = 0; m < program.microbatches; ++m) rows.insert(rows.end(), {10 * (m + 1), 0, 0});
  std::vector<std::unique_ptr<PipelineRank>> ranks;
  for (int r = 0; r < program.num_ranks(); ++r) {
    std::vector<Stage*> own;
    for (const int s : program.StagesOf(r)) own.push_back(out.stages[s].get());
    ranks.push_back(std::make_unique<PipelineRank>(own, group[r], program, r, 1, &now));
  }
  for (int s = 0; boundaries == Boundaries::kShared && s + 1 < program.num_stages(); ++s) {
    const int from = program.rank_of_stage[s], to = program.rank_of_stage[s + 1];
    if (from != to) ranks[from]->ShareBoundary(s, ranks[to].get());
  }
  for (const auto& rank : ranks) rank->BeginStep(rows);
  const Program order = *GlobalOrder(program);
  for (const Action& action : order) ranks[program.rank_of_stage[action.stage]]->Run(action);
  for (auto& rank : ranks) {
    rank->FinishSends();
    if (rank->loss_sum()) out.loss_sum += *rank->loss_sum();
  }
  return out;
}

// The last stage sees token + S - 2, twice per micro-batch (two tokens); its gradient arrives with
// S - 2 more.
void ExpectValues(const Outcome& out, int microbatches) {
  const int between = static_cast<int>(out.stages.size()) - 2;
  double sum = 0;
  std::vector<double> gradients;
  for (int m = 0; m < microbatches; ++m) {
    sum += 2 * (10 * (m + 1) + between);
    gradients.push_back(-(10 * (m + 1) + between) + between);
  }
  EXPECT_EQ(out.loss_sum, sum);
  EXPECT_EQ(out.stages[0]->arrived, gradients);
}

// Stage 0 sends 0, 1, 2 for each token, the last stage's gradient is 7 everywhere.
class SparseStage : public CountingStage {
 public:
  using CountingStage::CountingStage;
  void Forward(std::span<const int64_t> tokens, const at::Tensor& x, const at::Tensor& y,
               Activations* kept) override {
    CountingStage::Forward(tokens, x, y, kept);
    if (layout().first()) y.copy_(at::arange(3, y.options()).expand_as(y));
  }
  void BackwardInput(std::span<const int64_t>, const at::Tensor& dy, const at::Tensor& dx,
                     Activations*) override {
    if (layout().first()) gradient = dy.clone();
    if (layout().last()) dx.fill_(7);
  }
  at::Tensor gradient;
};

TEST(PipelineRank, MasksTheGradientWhereTheActivationWasZeroWhenAsked) {
  const PipelineProgram program = *ParseScheduleCsv("0F0,0B0\n1F0,1B0\n", CsvFormat::kComputeOnly);
  for (const bool mask : {false, true}) {
    SparseStage first(0, 2), last(1, 2);
    const std::function<absl::Duration()> now = [] { return absl::ZeroDuration(); };
    const auto group = NewMemoryGroup(2);
    PipelineRank a({&first}, group[0], program, 0, 1, &now, {}, mask);
    PipelineRank b({&last}, group[1], program, 1, 1, &now, {}, mask);
    const std::vector<int64_t> row = {10, 0, 0};
    for (PipelineRank* rank : {&a, &b}) rank->BeginStep(row);
    a.Run({0, Op::kForward, 0});
    b.Run({1, Op::kForward, 0});
    b.Run({1, Op::kBackward, 0});
    a.Run({0, Op::kBackward, 0});
    const at::Tensor want = at::tensor({mask ? 0.0F : 7.0F, 7.0F, 7.0F}).expand({2, 3});
    EXPECT_TRUE(at::equal(first.gradient, want)) << first.gradient;
  }
}

TEST(PipelineRank, RunsInterleavedStages) {
  // As torch dumps Interleaved1F1B of 2 ranks, 2 stages each, 4 micro-batches.
  ExpectValues(RunStep("0F0,0F1,2F0,2F1,,,0F2,2B0,0F3,2B1,2F2,0B0,2F3,0B1,,2B2,,2B3,,0B2,,0B3\n"
                       ",1F0,1F1,,3F0,3B0,3F1,3B1,1F2,1B0,1F3,1B1,3F2,3B2,3F3,3B3,,1B2,,1B3\n"),
               4);
}

TEST(PipelineRank, OneTensorForBothEndsOfABoundaryChangesNoValue) {
  const std::string looped =
      "0F0,0F1,2F0,2F1,,,0F2,2B0,0F3,2B1,2F2,0B0,2F3,0B1,,2B2,,2B3,,0B2,,0B3\n"
      ",1F0,1F1,,3F0,3B0,3F1,3B1,1F2,1B0,1F3,1B1,3F2,3B2,3F3,3B3,,1B2,,1B3\n";
  for (const auto& [csv, microbatches] :
       {std::pair{looped, 4},
        std::pair<std::string, int>{"0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n", 1}}) {
    const Outcome apart = RunStep(csv), shared = RunStep(csv, Boundaries::kShared);
    ExpectValues(shared, microbatches);
    EXPECT_EQ(shared.loss_sum, apart.loss_sum);
    for (size_t s = 0; s + 1 < shared.stages.size(); ++s) {
      EXPECT_EQ(shared.stages[s]->outputs, shared.stages[s + 1]->inputs) << s;
    }
    EXPECT_NE(apart.stages[0]->outputs, apart.stages[1]->inputs);
  }
}

TEST(PipelineRank, HandsOverBetweenStagesOfOneRank) {
  ExpectValues(RunStep("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n"), 1);
  ExpectValues(RunStep("0F0,1F0,2F0,2B0,1B0,0B0\n"), 1);
}

TEST(PipelineRank, SumsGradientsByMicrobatchWhateverTheOrderOfW) {
  const Outcome out = RunStep("0F0,0F1,0F2,0I0,0I1,0I2,0W2,0W0,0W1\n1F0,1F1,1F2,1I0,1B1,1W0,1B2\n");
  ExpectValues(out, 3);
  EXPECT_THAT(out.stages[0]->calls, testing::ElementsAre("I0", "I1", "I2", "W0", "W1", "W2"));
  EXPECT_THAT(out.stages[1]->calls, testing::ElementsAre("I0", "I1", "W0", "W1", "I2", "W2"));
  EXPECT_EQ(out.stages[0]->slots, 3);
  EXPECT_EQ(out.stages[1]->slots, 3);
}

}  // namespace
}  // namespace longhaul
