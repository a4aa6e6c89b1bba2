// Pricing a model: against passes of its own stages written out here, and against `longhaul run`.
#include "experiments/price/price_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <numeric>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "compressors/catalog.h"
#include "pp_group/models/model.h"
#include "tests/experiments/command/command_line.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

constexpr int64_t kContext = 16, kWidth = 64;

RunSpec Spec(const std::string& kind, bool tied = false) {
  RunSpec spec{};
  spec.model.kind = kind;
  spec.model.blocks = 4;
  spec.model.width = kWidth;
  spec.model.heads = 4;
  spec.model.context = kContext;
  spec.model.vocab = 61;
  if (kind == "gpt") return spec;
  spec.model.kv_heads = 2;
  spec.model.hidden = 96;
  spec.model.tied_head = tied;
  if (kind == "moe") spec.model.experts = 4;
  return spec;
}

std::vector<int64_t> Row() {
  std::vector<int64_t> ids(kContext + 1);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i * i * 7 + 3 * i) % 61;
  return ids;
}

// A model with weights far enough from their initial values that codecs matter.
struct Priced {
  explicit Priced(const RunSpec& wanted, const std::function<void(Stage&)>& change = {})
      : spec(wanted) {
    at::set_num_threads(1);
    auto made = NewStage(spec.model, {.stage = 0, .stages = 1, .seed = 5});
    EXPECT_TRUE(made.ok()) << made.status();
    whole = *std::move(made);
    whole->parameters().mul_(8);
    if (change) change(*whole);
    whole->ParametersChanged();
    const auto* flat = whole->parameters().const_data_ptr<float>();
    EXPECT_TRUE(WriteModelWeights(scratch.path(), spec, flat).ok());
    auto weights = ModelWeights::Open(scratch.path() + "/model.safetensors", spec);
    EXPECT_TRUE(weights.ok()) << weights.status();
    auto loaded = PriceModel::Load(spec, **weights);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    model = *std::move(loaded);
    codecs = std::make_unique<PriceCodecs>(
        *PriceCodecs::Make({"identity", "int4-b64-h64", "minmax2-b64"}));
  }
  std::vector<double> Losses(const std::vector<PriceArm>& arms) {
    std::vector<double> losses(arms.size());
    const absl::Status status =
        model->PriceRow(Row(), PassTree(arms), /*seed=*/1, codecs.get(), {}, losses);
    EXPECT_TRUE(status.ok()) << status;
    return losses;
  }

  const RunSpec spec;
  const ScratchFolder scratch;
  std::unique_ptr<Stage> whole;
  std::unique_ptr<PriceModel> model;
  std::unique_ptr<PriceCodecs> codecs;
};

class EveryPrice : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Table, EveryPrice, testing::ValuesIn(ModelKinds()),
                         [](auto& info) { return info.param; });

TEST_P(EveryPrice, ALosslessCodecCostsExactlyNothing) {
  Priced priced(Spec(GetParam()));
  const std::vector<double> losses =
      priced.Losses({{}, {{2, 0}}, {{1, 0}, {2, 0}, {3, 0}}, {{1, 2}, {2, 2}, {3, 2}}});
  EXPECT_EQ(losses[1], losses[0]);
  EXPECT_EQ(losses[2], losses[0]);
  EXPECT_GT(std::abs(losses[3] - losses[0]), 1e-4) << "two bits are seen";
}

// On the device that LONGHAUL_TEST_DEVICE names, else on the processor.
TEST_P(EveryPrice, InBfloat16ALosslessCodecCostsExactlyNothing) {
  RunSpec spec = Spec(GetParam());
  const char* const device = std::getenv("LONGHAUL_TEST_DEVICE");
  spec.train.device = device != nullptr ? device : "cpu";
  spec.train.dtype = "bfloat16";
  Priced priced(spec);
  Priced exact(Spec(GetParam()));
  const std::vector<double> losses =
      priced.Losses({{}, {{1, 0}, {2, 0}, {3, 0}}, {{1, 2}, {2, 2}}});
  EXPECT_EQ(losses[1], losses[0]);
  EXPECT_GT(std::abs(losses[2] - losses[0]), 1e-4) << "two bits are seen";
  const double in_f32 = exact.Losses({{}})[0];
  EXPECT_NE(losses[0], in_f32) << "it was computed in float32";
  EXPECT_NEAR(losses[0], in_f32, 0.02 * in_f32);
  const std::vector<GradientArm> arms = {{.forward = {{1, 0}}, .backward = {{3, 0}}}};
  std::vector<GradientError> errors(1);
  ASSERT_TRUE(priced.model->GradientRow(Row(), arms, 1, priced.codecs.get(), {}, errors).ok());
  EXPECT_EQ(errors[0].nmse, 0);
}

// Without a codec: what the same model loses in one stage.
void ExpectTheWholeModelsLoss(Priced& priced) {
  const std::vector<int64_t> ids = Row();
  const auto kept = priced.whole->NewForwardActivations(1);
  priced.whole->Forward(std::span(ids).first(kContext), {}, {}, kept.get());
  std::vector<double> each(kContext);
  priced.whole->Loss(std::span(ids).last(kContext), 0, kept.get(), each);
  const double mean = std::accumulate(each.begin(), each.end(), 0.0) / kContext;
  EXPECT_NEAR(priced.Losses({{}})[0], mean, 2e-6 * mean);
}

TEST_P(EveryPrice, UncompressedItIsTheWholeModelsLoss) {
  Priced priced(Spec(GetParam()));
  ExpectTheWholeModelsLoss(priced);
}

// Reuse of what arms share changes no bit: each arm by itself has the same loss.
TEST_P(EveryPrice, SharedPrefixesGiveTheBitsOfWholePasses) {
  Priced priced(Spec(GetParam()));
  const std::vector<PriceArm> arms = {
      {},       {{1, 1}},        {{2, 1}}, {{3, 1}}, {{1, 1}, {2, 1}, {3, 1}}, {{1, 1}, {3, 2}},
      {{2, 2}}, {{2, 2}, {3, 1}}};
  const std::vector<double> together = priced.Losses(arms);
  for (size_t a = 0; a < arms.size(); ++a) {
    EXPECT_EQ(priced.Losses({arms[a]})[0], together[a]) << a;
  }
}

// x as a receiver has it.
at::Tensor Received(const std::string& codec, const at::Tensor& x) {
  const auto coder = *MakeCodec(codec);
  const Shape shape = {static_cast<uint64_t>(x.size(0)), static_cast<uint64_t>(x.size(1))};
  std::vector<std::byte> frame(coder->MaxFrameBytes(shape, DType::kF32));
  const auto bytes =
      coder->Encode({x.const_data_ptr<float>(), DType::kF32, shape}, 0, nullptr, frame);
  at::Tensor y = at::empty_like(x);
  EXPECT_TRUE(coder
                  ->Decode(std::span(frame).first(*bytes), nullptr,
                           {y.data_ptr<float>(), DType::kF32, shape})
                  .ok());
  return y;
}

// The stages that `longhaul run` would make for cuts at 1 and 3, one after the other, with a codec
// on what crosses in each direction; gradients by tensor of the whole model.
struct ByHand {
  double loss;
  std::map<std::string, at::Tensor> gradients;
};
ByHand Pipeline(Priced& priced, const std::string& forward, const std::string& backward) {
  const std::vector<int64_t> ids = Row(), cuts = {1, 3};
  const auto tokens = std::span(ids).first(kContext), targets = std::span(ids).last(kContext);
  auto weights = ModelWeights::Open(priced.scratch.path() + "/model.safetensors", priced.spec);
  std::vector<std::unique_ptr<Stage>> stages;
  std::vector<std::unique_ptr<Activations>> kept;
  at::Tensor x;
  std::vector<at::Tensor> held;
  for (int s = 0; s < 3; ++s) {
    stages.push_back(
        *NewStage(priced.spec.model, {.stage = s, .stages = 3, .seed = 5, .cuts = cuts}));
    Stage& stage = *stages.back();
    EXPECT_TRUE((*weights)->Fill(stage.layout(), stage.parameters().data_ptr<float>()).ok());
    stage.ParametersChanged();
    stage.ZeroGradients();
    kept.push_back(stage.NewActivations(1));
    at::Tensor y = at::empty({kContext, kWidth}, at::kFloat);
    stage.Forward(tokens, x, y, kept.back().get());
    if (s < 2) held.push_back(x = Received(forward, y));
    held.push_back(y);
  }
  std::vector<double> losses(kContext);
  stages[2]->Loss(targets, 1.0f / kContext, kept[2].get(), losses);
  at::Tensor dy;
  ByHand out{.loss = std::accumulate(losses.begin(), losses.end(), 0.0) / kContext,
             .gradients = {}};
  for (int s = 2; s >= 0; --s) {
    const at::Tensor dx = s == 0 ? at::Tensor() : at::empty({kContext, kWidth}, at::kFloat);
    stages[s]->Backward(tokens, dy, dx, kept[s].get());
    if (s > 0) dy = Received(backward, dx);
    for (const ParameterSlot& slot : stages[s]->layout().slots) {
      out.gradients[slot.name] =
          stages[s]->gradients().narrow(0, slot.offset, slot.elements()).to(at::kDouble);
    }
  }
  return out;
}

// NMSE and cosine from both sets of gradients, tensor by tensor.
GradientError Against(const ByHand& other, const ByHand& exact) {
  double error = 0, norm = 0, dot = 0, norm_other = 0;
  for (const auto& [name, g] : exact.gradients) {
    const at::Tensor& h = other.gradients.at(name);
    error += (h - g).square().sum().item<double>();
    norm += g.square().sum().item<double>();
    dot += (h * g).sum().item<double>();
    norm_other += h.square().sum().item<double>();
  }
  return {.nmse = error / norm, .cosine = dot / std::sqrt(norm * norm_other)};
}

TEST_P(EveryPrice, LossesAndGradientsAreThoseOfAPipelineWrittenOut) {
  Priced priced(Spec(GetParam()));
  const PriceArm four = {{1, 1}, {3, 1}};
  const std::vector<GradientArm> arms = {{.forward = four, .backward = {}},
                                         {.forward = {}, .backward = four},
                                         {.forward = four, .backward = four},
                                         {.forward = {{1, 0}}, .backward = {{3, 0}}}};
  std::vector<GradientError> errors(arms.size());
  const absl::Status status =
      priced.model->GradientRow(Row(), arms, /*seed=*/1, priced.codecs.get(), {}, errors);
  ASSERT_TRUE(status.ok()) << status;
  const std::string none = "identity", lossy = "int4-b64-h64";
  const ByHand exact = Pipeline(priced, none, none);
  const std::pair<std::string, std::string> sides[] = {
      {lossy, none}, {none, lossy}, {lossy, lossy}};
  for (size_t a = 0; a < 3; ++a) {
    const ByHand made = Pipeline(priced, sides[a].first, sides[a].second);
    const GradientError want = Against(made, exact);
    EXPECT_GT(want.nmse, 1e-4) << a;
    EXPECT_NEAR(errors[a].nmse, want.nmse, 1e-4 * want.nmse) << a;
    EXPECT_NEAR(errors[a].cosine, want.cosine, 1e-6) << a;
  }
  EXPECT_EQ(errors[3].nmse, 0) << "lossless";
  EXPECT_NEAR(errors[3].cosine, 1, 1e-12);
  EXPECT_NEAR(priced.Losses({four})[0], Pipeline(priced, lossy, none).loss, 1e-6);
}

TEST(PriceModel, ATiedHeadIsTheEmbedding) {
  Priced priced(Spec("llama", /*tied=*/true));
  ExpectTheWholeModelsLoss(priced);
}

// Against an untied model whose head has the embedding's values: the tied gradient is the sum.
TEST(PriceModel, ATiedEmbeddingsGradientHasTheHeadsShare) {
  Priced tied(Spec("llama", /*tied=*/true));
  Priced untied(Spec("llama"), [](Stage& whole) {
    const auto view = [&](const std::string& name) {
      for (const ParameterSlot& slot : whole.layout().slots) {
        if (slot.name == name) return whole.parameters().narrow(0, slot.offset, slot.elements());
      }
      return at::Tensor();
    };
    view("head").copy_(view("embedding.token"));
  });
  ByHand exact = Pipeline(untied, "identity", "identity");
  ByHand made = Pipeline(untied, "int4-b64-h64", "int4-b64-h64");
  for (ByHand* side : {&exact, &made}) {
    side->gradients["embedding.token"] += side->gradients["head"];
    side->gradients.erase("head");
  }
  const PriceArm four = {{1, 1}, {3, 1}};
  const std::vector<GradientArm> arms = {{.forward = four, .backward = four}};
  std::vector<GradientError> errors(1);
  ASSERT_TRUE(tied.model->GradientRow(Row(), arms, 1, tied.codecs.get(), {}, errors).ok());
  const GradientError want = Against(made, exact);
  EXPECT_NEAR(errors[0].nmse, want.nmse, 1e-4 * want.nmse);
  EXPECT_NEAR(errors[0].cosine, want.cosine, 1e-6);
}

// Bits and error of what crosses are those of the frame.
TEST(PriceCodecs, CountsTheFramesBytesAndTheErrorOfWhatArrives) {
  auto codecs = PriceCodecs::Make({"int8-b64", "identity"});
  ASSERT_TRUE(codecs.ok());
  std::vector<float> x(2 * 64, 0.0f), y(x.size());
  x[0] = 127, x[1] = 0.25f, x[64] = 127;  // steps of 1: a quarter becomes 0
  const auto count = codecs->Cross(0, 1, {2, 64}, x, y);
  ASSERT_TRUE(count.ok()) << count.status();
  EXPECT_EQ(y[0], 127);
  EXPECT_EQ(y[1], 0);
  EXPECT_EQ(count->squared_error, 0.0625);
  EXPECT_EQ(count->squared_norm, 2 * 127.0 * 127.0 + 0.0625);
  EXPECT_GE(count->bits, 8.0 * (64 + 2 * (64 + 2))) << "header, bytes and two scales of 16 bits";
  EXPECT_LE(count->bits, 8.0 * (64 + 2 * (64 + 2) + 8));
  EXPECT_EQ(codecs->Cross(1, 1, {2, 64}, x, y)->squared_error, 0);
}

TEST(PriceCodecs, WhatKeepsAStateIsRefused) {
  for (const char* name : {"int4-b64+ef", "aqsgd4", "int8-b64+ef21"}) {
    const absl::Status status = PriceCodecs::Make({name}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr("keeps a state"));
  }
  EXPECT_TRUE(absl::IsNotFound(PriceCodecs::Make({"int5-b64"}).status()));
  EXPECT_THAT(std::string(PriceCodecs::Make({"bf16", "bf16"}).status().message()),
              HasSubstr("twice"));
}

}  // namespace
}  // namespace longhaul
