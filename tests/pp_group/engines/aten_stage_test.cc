#include "pp_group/engines/aten/stage.h"

#include <cmath>
#include <numeric>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "compressors/numbers/noise.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pp_group/device_check.h"
#include "pp_group/engines/aten/device.h"
#include "pp_group/engines/aten/ops.h"
#include "pp_group/kernels/kernels.h"
#include "pp_group/models/model.h"
#include "pp_group/optimizer/adamw.h"
#include "pp_group/tied_head.h"
#include "tests/pp_group/test_device.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

std::vector<int64_t> Ids(int64_t count, int64_t vocab, uint64_t seed) {
  std::vector<int64_t> ids(count);
  for (int64_t i = 0; i < count; ++i) {
    ids[i] = static_cast<int64_t>(FoldSeed({seed, static_cast<uint64_t>(i)}) %
                                  static_cast<uint64_t>(vocab));
  }
  return ids;
}

// Sharper than initial weights, so that attention and gates leave their linear range; keyed by the
// parameter, so that it does not depend on S.
void Scramble(Stage& stage) {
  ChangeValues(stage.parameters(), [&stage](float* values) {
    for (const ParameterSlot& slot : stage.layout().slots) {
      for (int64_t i = 0; i < slot.elements(); ++i) {
        const uint64_t key = FoldSeed({5, static_cast<uint64_t>(slot.global_index)});
        values[slot.offset + i] += 0.3f * (NoiseUniform(key, NoisePurpose::kSampling, i) - 0.5f);
      }
    }
  });
  stage.ParametersChanged();
}

struct Result {
  std::vector<double> losses;
  std::map<std::string, at::Tensor> gradients;  // by parameter
};

enum class How { kWhole, kSplit, kSplitLate };

// Two micro-batches of three rows through S stages.
Result Train(const ModelSpec& model, int stages, const ComputeSpec& compute = {},
             How how = How::kWhole) {
  constexpr int kMicrobatches = 2;
  const int64_t n = 3 * model.context;
  std::vector<std::unique_ptr<Stage>> parts;
  for (int s = 0; s < stages; ++s) {
    auto stage = NewStage(model, {.stage = s,
                                  .stages = stages,
                                  .seed = 1,
                                  .microbatches = kMicrobatches,
                                  .compute = OnTestDevice(model, compute)});
    EXPECT_TRUE(stage.ok()) << stage.status();
    Scramble(**stage);
    (*stage)->ZeroGradients();
    parts.push_back(*std::move(stage));
  }
  Result result;
  std::vector<std::pair<Stage*, std::unique_ptr<Activations>>> late;
  for (int m = 0; m < kMicrobatches; ++m) {
    const auto tokens = Ids(n, model.vocab, 10 + m), targets = Ids(n, model.vocab, 20 + m);
    std::vector<std::unique_ptr<Activations>> kept;
    std::vector<at::Tensor> x(stages + 1), dx(stages + 1);
    for (int s = 0; s < stages; ++s) {
      kept.push_back(parts[s]->NewActivations(3));
      x[s + 1] = at::empty({n, model.width}, parts[s]->boundary());
      dx[s] = at::empty({n, model.width}, parts[s]->boundary());
      parts[s]->Forward(tokens, x[s], x[s + 1], kept[s].get());
    }
    std::vector<double> losses(n);
    parts.back()->Loss(targets, 1.0f / static_cast<float>(kMicrobatches * n), kept.back().get(),
                       losses);
    parts.back()->FinishLosses();
    result.losses.insert(result.losses.end(), losses.begin(), losses.end());
    for (int s = stages - 1; s >= 0; --s) {
      if (how == How::kWhole) {
        parts[s]->Backward(tokens, dx[s + 1], dx[s], kept[s].get());
        continue;
      }
      parts[s]->BackwardInput(tokens, dx[s + 1], dx[s], kept[s].get());
      if (how == How::kSplit) parts[s]->BackwardWeight(kept[s].get());
      if (how == How::kSplitLate) late.emplace_back(parts[s].get(), std::move(kept[s]));
    }
  }
  for (auto& [stage, kept] : late) stage->BackwardWeight(kept.get());
  for (const auto& part : parts) {
    for (const ParameterSlot& slot : part->layout().slots) {
      result.gradients[slot.name] = part->gradients()
                                        .narrow(0, slot.offset, slot.elements())
                                        .to(at::kCPU, /*non_blocking=*/false,
                                            /*copy=*/true);
    }
  }
  return result;
}

void ExpectEqualBits(const Result& a, const Result& b, const std::string& what) {
  EXPECT_EQ(a.losses, b.losses) << what;
  ASSERT_EQ(a.gradients.size(), b.gradients.size());
  for (const auto& [name, gradient] : a.gradients) {
    EXPECT_TRUE(at::equal(gradient, b.gradients.at(name))) << what << ": " << name;
  }
}

ModelSpec Small(const std::string& kind) {
  ModelSpec model{.blocks = 4,
                  .width = 32,
                  .heads = 4,
                  .context = 19,
                  .vocab = 37,
                  .kind = kind,
                  .engine = "aten"};
  if (kind != "gpt") {
    model.kv_heads = 2;
    model.hidden = 48;
    model.experts = 4;
  }
  return model;
}

class EveryModel : public testing::TestWithParam<std::string> {};

TEST_P(EveryModel, DepthSplitBackwardAndRecomputationChangeNoBit) {
  at::set_num_threads(1);
  const ModelSpec model = Small(GetParam());
  const Result whole = Train(model, 1);
  for (const int stages : {2, 4}) {
    ExpectEqualBits(Train(model, stages), whole, "stages " + std::to_string(stages));
    ExpectEqualBits(Train(model, stages, {}, How::kSplit), whole, "split");
    ExpectEqualBits(Train(model, stages, {}, How::kSplitLate), whole, "all W at the end");
    ExpectEqualBits(Train(model, stages, {.recompute = true}), whole, "recomputed");
  }
  for (const auto& [name, gradient] : whole.gradients) {
    EXPECT_GT(gradient.norm().item<double>(), 1e-6) << name;
  }
}

// Against the slope of the loss itself, along a random direction of each parameter.
TEST_P(EveryModel, GradientsAreTheSlopeOfTheLoss) {
  at::set_num_threads(1);
  ModelSpec model = Small(GetParam());
  model.blocks = 2;
  model.balance_loss = 0;  // not part of the reported loss
  model.experts = 2;       // with more, a step may change a token's choice, where there is no slope
  auto made = NewStage(model, {.stage = 0, .stages = 1, .seed = 1, .compute = OnTestDevice(model)});
  ASSERT_TRUE(made.ok());
  Stage& stage = **made;
  Scramble(stage);
  const int64_t n = 2 * model.context;
  const auto tokens = Ids(n, model.vocab, 1), targets = Ids(n, model.vocab, 2);
  const auto loss = [&](float scale) {
    const auto kept = stage.NewActivations(2);
    std::vector<double> losses(n);
    stage.Forward(tokens, {}, {}, kept.get());
    stage.Loss(targets, scale, kept.get(), losses);
    stage.FinishLosses();
    if (scale != 0) stage.Backward(tokens, {}, {}, kept.get());
    return std::accumulate(losses.begin(), losses.end(), 0.0);
  };
  stage.ZeroGradients();
  loss(1);
  for (const ParameterSlot& slot : stage.layout().slots) {
    const auto part = [&](const at::Tensor& t) {
      return t.narrow(0, slot.offset, slot.elements());
    };
    const at::Tensor direction = part(stage.gradients()) / part(stage.gradients()).norm();
    const at::Tensor parameter = part(stage.parameters()), before = parameter.clone();
    constexpr double kStep = 2e-2;
    parameter.copy_(before + kStep * direction);
    const double above = loss(0);
    parameter.copy_(before - kStep * direction);
    const double below = loss(0);
    parameter.copy_(before);
    const double slope = part(stage.gradients()).norm().item<double>();
    EXPECT_NEAR((above - below) / (2 * kStep) / slope, 1, 0.03) << slot.name;
  }
}

TEST_P(EveryModel, Bfloat16IsFloat32Roughly) {
  at::set_num_threads(1);
  const ModelSpec model = Small(GetParam());
  const Result full = Train(model, 2), half = Train(model, 2, {.dtype = "bfloat16"});
  const double sum = std::accumulate(full.losses.begin(), full.losses.end(), 0.0);
  const double half_sum = std::accumulate(half.losses.begin(), half.losses.end(), 0.0);
  EXPECT_NEAR(half_sum / sum, 1, 0.01);
  EXPECT_NE(half.losses, full.losses);
  ExpectEqualBits(Train(model, 4, {.dtype = "bfloat16", .recompute = true}), half, "bfloat16");
  const at::Tensor &a = full.gradients.at("head"), &b = half.gradients.at("head");
  EXPECT_LT(((a - b).norm() / a.norm()).item<double>(), 0.05);
}

INSTANTIATE_TEST_SUITE_P(Table, EveryModel, testing::ValuesIn(ModelKinds()),
                         [](auto& info) { return info.param; });

TEST(AtenStage, GptAgreesWithTheWrittenOutEngineInEveryGradient) {
  at::set_num_threads(1);
  for (const int64_t width : {64, 30}) {
    ModelSpec model{
        .blocks = 2, .width = width, .heads = 2, .context = 40, .vocab = 61, .engine = "aten"};
    const Result aten = Train(model, 2);
    model.engine = "cpu";
    const Result written = Train(model, 2);
    for (size_t i = 0; i < written.losses.size(); ++i) {
      EXPECT_NEAR(aten.losses[i], written.losses[i], 2e-5 * written.losses[i]);
    }
    for (const auto& [name, gradient] : written.gradients) {
      const double difference = (aten.gradients.at(name) - gradient).norm().item<double>();
      EXPECT_LT(difference / gradient.norm().item<double>(), 2e-5) << name;
    }
  }
}

TEST(AtenStage, TiedHeadAddsBothGradientsOfTheEmbedding) {
  at::set_num_threads(1);
  ModelSpec model = Small("llama");
  const StageOptions options{.stage = 0, .stages = 1, .seed = 1, .compute = OnTestDevice(model)};
  model.tied_head = true;
  auto tied = NewStage(model, options);
  model.tied_head = false;
  auto untied = NewStage(model, options);
  ASSERT_TRUE(tied.ok() && untied.ok());
  const auto slot = [](Stage& stage, const std::string& name, const at::Tensor& flat) {
    for (const ParameterSlot& s : stage.layout().slots) {
      if (s.name == name) return flat.narrow(0, s.offset, s.elements());
    }
    return at::Tensor();
  };
  slot(**untied, "head", (*untied)->parameters())
      .copy_(slot(**tied, "embedding.token", (*tied)->parameters()));
  const int64_t n = model.context;
  const auto tokens = Ids(n, model.vocab, 1), targets = Ids(n, model.vocab, 2);
  for (Stage* stage : {tied->get(), untied->get()}) {
    stage->ZeroGradients();
    const auto kept = stage->NewActivations(1);
    std::vector<double> losses(n);
    stage->Forward(tokens, {}, {}, kept.get());
    stage->Loss(targets, 1, kept.get(), losses);
    stage->FinishLosses();
    stage->Backward(tokens, {}, {}, kept.get());
  }
  const at::Tensor sum = slot(**untied, "head", (*untied)->gradients()) +
                         slot(**untied, "embedding.token", (*untied)->gradients());
  TiedHead(tied->get(), nullptr).AddGradient();
  const at::Tensor both = slot(**tied, "embedding.token", (*tied)->gradients());
  EXPECT_LT(((both - sum).norm() / sum.norm()).item<double>(), 1e-6);
}

TEST(AtenStage, CapacityDropsTokensAndALargeOneNone) {
  at::set_num_threads(1);
  ModelSpec model = Small("moe");
  const Result dropless = Train(model, 1);
  model.capacity_factor = 4;  // 4 experts: as many as there are choices
  ExpectEqualBits(Train(model, 1), dropless, "an expert may take all");
  model.capacity_factor = 0.5;
  EXPECT_NE(Train(model, 1).losses, dropless.losses);
}

// The router alone feels it, and by how much does not depend on the number of micro-batches.
TEST(AtenStage, BalanceLossReachesTheRouter) {
  at::set_num_threads(1);
  ModelSpec model = Small("moe");
  model.balance_loss = 0;
  const Result without = Train(model, 1);
  model.balance_loss = 0.5;
  const Result with = Train(model, 1);
  EXPECT_EQ(with.losses, without.losses);
  const std::string last = "block3.router";
  EXPECT_FALSE(at::equal(with.gradients.at(last), without.gradients.at(last)));
  EXPECT_TRUE(at::equal(with.gradients.at("head"), without.gradients.at("head")));
}

TEST(AtenStage, DeviceUpdateIsTheKernelsUpToRounding) {
  const int64_t n = 257;
  at::Tensor grad = at::randn({n}), theta = at::randn({n}), m = at::randn({n}) * 0.1,
             v = at::rand({n});
  const at::Device device(OnTestDevice(Small("gpt")).device);
  const auto there = [&device](const at::Tensor& x) {
    return x.to(device, at::kFloat, false, true);
  };
  at::Tensor theta2 = there(theta), m2 = there(m), v2 = there(v);
  const AdamWStep step{.grad_scale = 0.7f,
                       .beta1 = 0.9f,
                       .beta2 = 0.95f,
                       .eps = 1e-8f,
                       .step_size = 3e-3f,
                       .sqrt_correction2 = 0.4f,
                       .decay = 1e-4f};
  BestKernels().adamw(step, grad.data_ptr<float>(), n, theta.data_ptr<float>(), m.data_ptr<float>(),
                      v.data_ptr<float>());
  StepByAten(step, grad.to(device), theta2, m2, v2);
  EXPECT_TRUE(at::allclose(theta2.cpu(), theta, 1e-6, 1e-7));
  EXPECT_TRUE(at::allclose(m2.cpu(), m, 1e-6, 1e-7));
  EXPECT_TRUE(at::allclose(v2.cpu(), v, 1e-6, 1e-7));
}

// One clip group scaled down, one not; a matrix and a vector in each; the third step's correction.
TEST(AtenStage, FusedUpdateIsTheKernelsUpToRounding) {
  const ModelSpec model = Small("gpt");
  const AdamWSpec spec{.lr = 3e-3, .weight_decay = 0.2};
  std::vector<std::unique_ptr<Stage>> stages;
  for (const ComputeSpec& compute : {ComputeSpec(), OnTestDevice(model)}) {
    stages.push_back(*NewStage(model, {.stage = 0, .stages = 1, .seed = 1, .compute = compute}));
  }
  Stage &here = *stages[0], &there = *stages[1];
  here.gradients().copy_(at::randn(here.gradients().sizes()) * 1e-2);
  there.gradients().copy_(here.gradients());
  std::vector<float> scales(here.layout().clip_groups.size(), 1.0f);
  scales[1] = 0.25f;
  const int64_t step = 3;
  const double rate = 1e-3;
  const at::Tensor first = at::randn(here.gradients().sizes()) * 1e-2, second = first.square();
  const at::Tensor m = first.to(there.parameters().device(), at::kFloat, false, true),
                   v = second.to(there.parameters().device(), at::kFloat, false, true);
  for (const ParameterSlot& slot : here.layout().slots) {
    const AdamWStep kernel{
        .grad_scale = scales[static_cast<size_t>(slot.clip_group)],
        .beta1 = static_cast<float>(spec.beta1),
        .beta2 = static_cast<float>(spec.beta2),
        .eps = static_cast<float>(spec.eps),
        .step_size = static_cast<float>(rate / (1 - std::pow(spec.beta1, step))),
        .sqrt_correction2 = static_cast<float>(std::sqrt(1 - std::pow(spec.beta2, step))),
        .decay = slot.decays ? static_cast<float>(rate * spec.weight_decay) : 0.0f};
    BestKernels().adamw(kernel, here.gradients().data_ptr<float>() + slot.offset, slot.elements(),
                        here.parameters().data_ptr<float>() + slot.offset,
                        first.data_ptr<float>() + slot.offset,
                        second.data_ptr<float>() + slot.offset);
  }
  const at::Tensor before = there.parameters().cpu().clone();
  StepFused(spec, step, rate, scales, &there, m, v);
  EXPECT_TRUE(at::allclose(there.parameters().cpu(), here.parameters(), 1e-6, 1e-7));
  EXPECT_FALSE(at::allclose(there.parameters().cpu(), before, 1e-4, 1e-5)) << "it moves";
  EXPECT_TRUE(at::allclose(m.cpu(), first, 1e-6, 1e-8));
  EXPECT_TRUE(at::allclose(v.cpu(), second, 1e-5, 1e-10));
}

// 192 rows as 128 and 64; one part (of tiles of 128) has the bits that no parts have.
TEST_P(EveryModel, ALossInPartsIsTheWholeLoss) {
  ModelSpec model = Small(GetParam());
  model.context = 64;
  const Result whole = Train(model, 2), parts = Train(model, 2, {.logit_bytes = 1});
  ExpectEqualBits(Train(model, 2, {.logit_bytes = 256 * model.vocab * 4}), whole, "one part");
  for (size_t i = 0; i < whole.losses.size(); ++i) {
    EXPECT_NEAR(parts.losses[i], whole.losses[i], 1e-5) << i;
  }
  for (const auto& [name, gradient] : whole.gradients) {
    EXPECT_TRUE(at::allclose(parts.gradients.at(name), gradient, 1e-4, 1e-7)) << name;
  }
}

TEST(ComputeSpec, RowsOfThePartsOfALoss) {
  const ComputeSpec compute;  // 2^28 bytes of logits
  EXPECT_EQ(compute.HeadRows(100, 256), 100);
  EXPECT_EQ(compute.HeadRows(16384, 50304), 1280);
  EXPECT_EQ(compute.HeadRows(16384, int64_t{1} << 30), 128) << "a tile at least";
}

TEST(Device, WithoutProductsOfADtypeSaysSoInOneLine) {
  const at::Device device(OnTestDevice(Small("gpt")).device);
  RequireProducts(device, at::kFloat);
  RequireProducts(device, at::kBFloat16);
  try {
    RequireProducts(device, at::kBool);
    FAIL() << "it multiplies truth";
  } catch (const c10::Error& e) {
    const std::string text = e.what_without_backtrace();
    EXPECT_THAT(text, HasSubstr("multiplies no matrices of Bool ("));
    EXPECT_THAT(text, HasSubstr("): set train.dtype = \"float32\""));
    EXPECT_EQ(text.find('\n'), std::string::npos);
  }
}

TEST(Device, HasAKernelOfAttention) {
  const ComputeSpec compute = OnTestDevice(Small("llama"), {.dtype = "bfloat16"});
  const std::string kernel = AttentionKernelOf(Small("llama"), compute);
  if (compute.device == "cpu") {
    EXPECT_EQ(kernel, "");
  } else {
    EXPECT_EQ(kernel, compute.attention == "math" ? "math" : "flash");
  }
}

// Positive terms, then as many negative ones: their partial sums are far larger than the result, so
// that rounding those to 16 bits shows.
class LongProduct : public testing::Test {
 protected:
  static constexpr int64_t kTerms = 16384, kRows = 48, kColumns = 40;
  static at::Tensor Draw(int64_t n, uint64_t seed) {
    std::vector<float> values(static_cast<size_t>(n * kTerms));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = 0.5f + NoiseUniform(seed, NoisePurpose::kSampling, i);
    }
    return at::tensor(values).view({n, kTerms}).to(at::kBFloat16);
  }
  LongProduct() { b_.narrow(1, kTerms / 2, kTerms / 2).neg_(); }

  // The largest error in units of what f32 sums and one rounding to bf16 allow.
  double Excess(const at::Tensor& y) const {
    const at::Tensor a = a_.to(at::kDouble), b = b_.to(at::kDouble);
    const at::Tensor exact = at::mm(a, b.t()), of_terms = at::mm(a.abs(), b.abs().t());
    const at::Tensor allowed = exact.abs() * 0x1.1p-9 + of_terms * 0x1p-16;
    return ((y.cpu().to(at::kDouble) - exact).abs() / allowed).max().item<double>();
  }

  const at::Tensor a_ = Draw(kRows, 1), b_ = Draw(kColumns, 2);  // [rows, K], [columns, K]
};

TEST_F(LongProduct, OfBfloat16IsSummedInFloat) {
  const ComputeSpec compute =
      OnTestDevice(Small("llama"), {.dtype = "bfloat16", .attention = "math"});
  const at::Device device = DeviceOf(compute);
  for (const auto option : {at::globalContext().allowBF16ReductionCuBLAS(),
                            at::globalContext().allowFP16ReductionCuBLAS()}) {
    EXPECT_EQ(option, at::CuBLASReductionOption::DisallowReducedPrecisionAllowSplitK);
  }
  const at::Tensor a = a_.to(device), b = b_.to(device);
  std::vector<WeightGradient>* later = nullptr;
  const AtenParameter weight{b, at::zeros({kColumns, kTerms}, b.options().dtype(at::kFloat)),
                             &later};
  EXPECT_LT(Excess(Linear(a, weight)), 1);
  // A weight's gradient sums over the rows of a micro-batch.
  const at::Tensor gradient = at::zeros({kRows, kColumns}, b.options().dtype(at::kFloat));
  AddWeightGradient({gradient, a.t().contiguous(), b.t().contiguous()});
  EXPECT_LT(Excess(gradient), 1);
  at::Tensor split = at::zeros({kRows, kColumns}, at::kBFloat16);
  for (int64_t k = 0; k < kTerms; k += kTerms / 16) {
    split.add_(at::mm(a_.narrow(1, k, kTerms / 16), b_.narrow(1, k, kTerms / 16).t()));
  }
  EXPECT_GT(Excess(split), 10) << "partial sums of 16 bits would not show";
}

TEST(Models, WhatCannotBeIsRefusedInOneLine) {
  const auto refusal = [](auto change) {
    ModelSpec model = Small("llama");
    ComputeSpec compute;
    change(model, compute);
    const absl::Status status = CheckModel(model, compute);
    EXPECT_EQ(status.message().find('\n'), std::string::npos);
    return std::string(status.message());
  };
  using M = ModelSpec&;
  using C = ComputeSpec&;
  EXPECT_EQ(refusal([](M, C) {}), "");
  EXPECT_THAT(refusal([](M m, C) { m.kind = "rwkv"; }), HasSubstr("known: gpt, llama, moe"));
  EXPECT_THAT(refusal([](M m, C) { m.engine = "cpu"; }), HasSubstr("it has: auto, aten"));
  EXPECT_THAT(refusal([](M m, C) { m.heads = 5; }), HasSubstr("not divisible by 5 heads"));
  EXPECT_THAT(refusal([](M m, C) { m.kv_heads = 3; }), HasSubstr("by 3 kv_heads"));
  EXPECT_THAT(refusal([](M m, C) { m.heads = 32, m.kv_heads = 0; }), HasSubstr("rotary"));
  EXPECT_EQ(refusal([](M m, C) { m.tied_head = true; }), "");
  EXPECT_THAT(refusal([](M m, C) { m.tied_head = true, m.kind = "gpt"; }),
              HasSubstr("no tied head"));
  EXPECT_THAT(refusal([](M m, C) { m.kind = "moe", m.experts = 1; }), HasSubstr("two"));
  EXPECT_THAT(refusal([](M, C c) { c.device = "gpu"; }), HasSubstr("cuda:N or cuda:*"));
  EXPECT_THAT(refusal([](M, C c) { c.device = "cuda:-1"; }), HasSubstr("cuda:N"));
  EXPECT_THAT(refusal([](M, C c) { c.device = "cuda:99"; }), HasSubstr("'cuda:99'"));
  EXPECT_THAT(refusal([](M, C c) { c.dtype = "float16"; }), HasSubstr("bfloat16"));
  const auto gpt = [](M m, C) { m.kind = "gpt", m.engine = "cpu"; };
  EXPECT_THAT(refusal([&](M m, C c) { gpt(m, c), c.dtype = "bfloat16"; }),
              HasSubstr("engine 'cpu' cannot do bfloat16"));
  EXPECT_THAT(refusal([&](M m, C c) { gpt(m, c), c.recompute = true; }),
              HasSubstr("cannot do recomputation"));
  EXPECT_THAT(refusal([&](M m, C c) { gpt(m, c), c.device = "cuda"; }),
              HasSubstr("cannot do device 'cuda'"));
}

TEST(Models, AutoIsTheWrittenOutEngineWhereItCan) {
  const ModelSpec gpt{.blocks = 1, .width = 8, .heads = 1, .context = 4, .vocab = 8};
  EXPECT_EQ(*EngineOf(gpt, {}), "cpu");
  EXPECT_EQ(*EngineOf(gpt, {.dtype = "bfloat16"}), "aten");
  EXPECT_EQ(*EngineOf(gpt, {.device = "cuda:1"}), "aten");
  ModelSpec llama = gpt;
  llama.kind = "llama";
  EXPECT_EQ(*EngineOf(llama, {}), "aten");
}

}  // namespace
}  // namespace longhaul
