#include "pp_group/engines/cpu/gpt_stage.h"

#include <cmath>
#include <numeric>
#include <thread>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "compressors/numbers/noise.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pp_group/engines/cpu/gpt_activations.h"
#include "pp_group/memory/tensor_memory.h"
#include "tests/pp_group/autograd_gpt.h"

namespace longhaul {
namespace {

std::vector<int64_t> RandomIds(int64_t count, int64_t vocab, uint64_t seed) {
  std::vector<int64_t> ids(count);
  for (int64_t i = 0; i < count; ++i) {
    ids[i] = static_cast<int64_t>(FoldSeed({seed, static_cast<uint64_t>(i)}) %
                                  static_cast<uint64_t>(vocab));
  }
  return ids;
}

// Sharper than the initial weights, so that attention and GELU leave their linear range.
void Scramble(const at::Tensor& parameters) {
  float* values = parameters.data_ptr<float>();
  for (int64_t i = 0; i < parameters.numel(); ++i) {
    if (values[i] == 0) continue;  // gaps stay zero
    values[i] += 0.3f * (NoiseUniform(5, NoisePurpose::kSampling, i) - 0.5f);
  }
}

double Relative(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

struct Whole {
  double loss;
  at::Tensor gradient;  // of the unsplit layout
};

// Forward and backward through all S stages; gradients put together in the unsplit layout.
Whole RunStages(const ModelSpec& spec, int stages, const at::Tensor& flat,
                const std::vector<int64_t>& tokens, const std::vector<int64_t>& targets) {
  const int64_t n = static_cast<int64_t>(tokens.size());
  const StageLayout unsplit = LayoutOf(spec, 0, 1);
  std::vector<std::unique_ptr<CpuGptStage>> parts;
  std::vector<std::unique_ptr<Activations>> kept;
  std::vector<at::Tensor> x(stages + 1), dx(stages + 1);
  for (int s = 0; s < stages; ++s) {
    parts.push_back(std::make_unique<CpuGptStage>(spec, s, stages, /*seed=*/1));
    kept.push_back(parts[s]->NewActivations(n / spec.context));
    x[s + 1] = at::empty({n, spec.width});
    dx[s] = at::empty({n, spec.width});
    for (const ParameterSlot& slot : parts[s]->layout().slots) {
      for (const ParameterSlot& whole : unsplit.slots) {
        if (whole.name != slot.name) continue;
        parts[s]->Parameter(slot).view({-1}).copy_(flat.narrow(0, whole.offset, whole.elements()));
      }
    }
  }
  for (int s = 0; s < stages; ++s) parts[s]->Forward(tokens, x[s], x[s + 1], kept[s].get());
  std::vector<double> losses(n);
  parts.back()->Loss(targets, 1.0f / static_cast<float>(n), kept.back().get(), losses);
  for (int s = stages - 1; s >= 0; --s) parts[s]->Backward(tokens, dx[s + 1], dx[s], kept[s].get());
  Whole result{std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(n),
               at::zeros({unsplit.flat_elements})};
  for (const auto& part : parts) {
    for (const ParameterSlot& slot : part->layout().slots) {
      for (const ParameterSlot& whole : unsplit.slots) {
        if (whole.name != slot.name) continue;
        result.gradient.narrow(0, whole.offset, whole.elements())
            .copy_(part->Gradient(slot).view({-1}));
      }
    }
  }
  return result;
}

class AgainstAutograd : public testing::TestWithParam<ModelSpec> {};

TEST_P(AgainstAutograd, LossAndEveryGradientAgree) {
  at::set_num_threads(1);
  const ModelSpec spec = GetParam();
  const auto tokens = RandomIds(3 * spec.context, spec.vocab, 1);
  const auto targets = RandomIds(3 * spec.context, spec.vocab, 2);
  CpuGptStage initial(spec, 0, 1, /*seed=*/1);
  Scramble(initial.parameters());
  const Whole ours = RunStages(spec, 1, initial.parameters(), tokens, targets);
  // The reference in double precision, so that the difference is ours alone.
  at::Tensor flat = initial.parameters().to(at::kDouble).requires_grad_();
  const at::Tensor loss = AutogradLoss(spec, flat, tokens, targets);
  loss.backward();
  EXPECT_NEAR(ours.loss, loss.item<double>(), 1e-5);
  const StageLayout layout = LayoutOf(spec, 0, 1);
  for (const ParameterSlot& slot : layout.slots) {
    const auto part = [&](const at::Tensor& t) {
      return t.narrow(0, slot.offset, slot.elements()).to(at::kDouble);
    };
    EXPECT_LT(Relative(part(ours.gradient), part(flat.grad())), 2e-5) << slot.name;
  }
}

TEST_P(AgainstAutograd, SplitModelGivesTheBitsOfTheUnsplitOne) {
  at::set_num_threads(1);
  const ModelSpec spec = GetParam();
  const auto tokens = RandomIds(2 * spec.context, spec.vocab, 3);
  const auto targets = RandomIds(2 * spec.context, spec.vocab, 4);
  CpuGptStage initial(spec, 0, 1, /*seed=*/1);
  const Whole whole = RunStages(spec, 1, initial.parameters(), tokens, targets);
  const Whole split = RunStages(spec, 2, initial.parameters(), tokens, targets);
  EXPECT_EQ(split.loss, whole.loss);
  EXPECT_TRUE(at::equal(split.gradient, whole.gradient));
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, AgainstAutograd,
    testing::Values(ModelSpec{.blocks = 2, .width = 64, .heads = 4, .context = 128, .vocab = 256},
                    // Nothing is a multiple of a vector: head width 11, context 19, vocab 37.
                    ModelSpec{.blocks = 2, .width = 33, .heads = 3, .context = 19, .vocab = 37},
                    ModelSpec{.blocks = 4, .width = 40, .heads = 1, .context = 8, .vocab = 300},
                    ModelSpec{.blocks = 2, .width = 6, .heads = 2, .context = 1, .vocab = 3}),
    [](auto& info) {
      return "Width" + std::to_string(info.param.width) + "Context" +
             std::to_string(info.param.context);
    });

TEST(CpuGptStage, InitialWeightsDoNotDependOnTheNumberOfStages) {
  const ModelSpec spec{.blocks = 8, .width = 16, .heads = 2, .context = 8, .vocab = 32};
  const CpuGptStage whole(spec, 0, 1, /*seed=*/3);
  size_t compared = 0;
  for (int s = 0; s < 4; ++s) {
    const CpuGptStage part(spec, s, 4, /*seed=*/3);
    for (const ParameterSlot& slot : part.layout().slots) {
      for (const ParameterSlot& other : whole.layout().slots) {
        if (slot.name != other.name) continue;
        EXPECT_EQ(slot.global_index, other.global_index);
        EXPECT_TRUE(at::equal(part.Parameter(slot), whole.Parameter(other))) << slot.name;
        ++compared;
      }
    }
  }
  EXPECT_EQ(compared, whole.layout().slots.size());
}

TEST(GptLayout, StagesHoldTheBlocksBetweenTheirCuts) {
  const ModelSpec spec{.blocks = 12, .width = 16, .heads = 2, .context = 8, .vocab = 32};
  const std::vector<int64_t> cuts = {2, 5, 11}, first = {0, 2, 5, 11}, held = {2, 3, 6, 1};
  int64_t parameters = 0;
  for (int s = 0; s < 4; ++s) {
    const StageLayout layout = LayoutOf(spec, s, 4, cuts);
    EXPECT_EQ(layout.first_block, first[s]);
    EXPECT_EQ(layout.num_blocks, held[s]);
    parameters += layout.parameter_elements;
  }
  EXPECT_EQ(parameters, ParameterCount(spec));
}

TEST(GptLayout, CutsIntoEqualStagesAreTheLayoutWithoutCuts) {
  const ModelSpec spec{.blocks = 12, .width = 16, .heads = 2, .context = 8, .vocab = 32};
  const std::vector<int64_t> cuts = {3, 6, 9};
  for (int s = 0; s < 4; ++s) {
    const StageLayout equal = LayoutOf(spec, s, 4), cut = LayoutOf(spec, s, 4, cuts);
    EXPECT_EQ(equal.first_block, 3 * s);
    EXPECT_EQ(equal.first_block, cut.first_block);
    EXPECT_EQ(equal.flat_elements, cut.flat_elements);
  }
}

TEST(CpuGptStage, InitialWeightsAreNormalWithTheLayoutsScale) {
  const ModelSpec spec{.blocks = 2, .width = 64, .heads = 2, .context = 64, .vocab = 256};
  const CpuGptStage stage(spec, 0, 1, /*seed=*/3);
  for (const ParameterSlot& slot : stage.layout().slots) {
    const at::Tensor values = stage.Parameter(slot);
    if (slot.initial_scale == 0) {
      EXPECT_TRUE((values == slot.initial_value).all().item<bool>()) << slot.name;
      continue;
    }
    const double n = static_cast<double>(slot.elements());
    EXPECT_NEAR(values.std().item<double>() / slot.initial_scale, 1, 5 / std::sqrt(2 * n));
    EXPECT_NEAR(values.mean().item<double>() / slot.initial_scale, 0, 5 / std::sqrt(n));
    EXPECT_LT(values.abs().max().item<double>(), 6 * slot.initial_scale) << slot.name;
  }
}

TEST(Layout, DemoModelHas436352Parameters) {
  EXPECT_EQ(ParameterCount({.blocks = 8, .width = 64, .heads = 4, .context = 128, .vocab = 256}),
            256 * 64 + 128 * 64 + 8 * (12 * 64 * 64 + 4 * 64) + 2 * 64 + 256 * 64);
}

TEST(Layout, ClipGroupsAreTheSameForEveryNumberOfStages) {
  const ModelSpec spec{.blocks = 8, .width = 16, .heads = 2, .context = 8, .vocab = 32};
  size_t groups = 0;
  for (int s = 0; s < 4; ++s) groups += LayoutOf(spec, s, 4).clip_groups.size();
  EXPECT_EQ(groups, LayoutOf(spec, 0, 1).clip_groups.size());
  EXPECT_EQ(groups, 1 + 8 + 1u);
}

// The second stage's passes take no scratch but the logits.
TEST(CpuGptStage, StagesOfAThreadHaveOneScratch) {
  UseTensorMemory();
  const ModelSpec spec = {.blocks = 2, .width = 128, .heads = 4, .context = 256, .vocab = 256};
  constexpr int64_t kRows = 4, kTokens = 4 * 256;
  const std::vector<int64_t> ids = RandomIds(kTokens, spec.vocab, 1);
  CpuGptStage first(spec, 0, 2, /*seed=*/1), last(spec, 1, 2, /*seed=*/1);
  const auto kept0 = first.NewActivations(kRows), kept1 = last.NewActivations(kRows);
  const at::Tensor x = at::empty({kTokens, spec.width}), dx = at::empty_like(x);
  std::vector<double> losses(kTokens);
  const auto pass = [&] {
    last.Forward({}, x, {}, kept1.get());
    last.Loss(ids, 1, kept1.get(), losses);
    last.Backward({}, {}, dx, kept1.get());
  };
  const int64_t before = TensorMemory().used;
  first.Forward(ids, {}, x, kept0.get());
  const int64_t scratch = TensorMemory().used - before;
  EXPECT_GE(scratch, 11 * kTokens * spec.width * 4);
  pass();
  EXPECT_EQ(TensorMemory().used - before - scratch, kTokens * spec.vocab * 4);
  // Of another thread it is another.
  const int64_t here = TensorMemory().used;
  int64_t there = 0;
  std::thread([&] {
    pass();
    there = TensorMemory().used - here;
  }).join();
  EXPECT_GE(there, 11 * kTokens * spec.width * 4);
}

}  // namespace
}  // namespace longhaul
