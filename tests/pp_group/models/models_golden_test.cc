// Every kind of model, on every engine that carries it, against plain PyTorch in double precision:
// the file that models_golden.py --rewrite makes. Layers, initial scales, losses, gradients,
// routing, clipping and four updates of AdamW, all away from default constants. In one stage, and
// in several, of which two hold a tied matrix.

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "pp_group/models/model.h"
#include "pp_group/optimizer/adamw.h"
#include "pp_group/tied_head.h"
#include "tests/pp_group/test_device.h"
#include "tests/pp_group/training.h"

namespace longhaul {
namespace {

constexpr int64_t kRows = 2;  // of a micro-batch

struct Case {
  std::string file_name;
  ModelSpec model;
  int microbatches;
  int stages = 1;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.file_name << " " << c.model.engine << " in " << c.stages;
}

std::vector<Case> Cases() {
  const ModelSpec llama{.blocks = 3,
                        .width = 16,
                        .heads = 4,
                        .context = 7,
                        .vocab = 29,
                        .kind = "llama",
                        .engine = "aten",
                        .kv_heads = 2,
                        .hidden = 24,
                        .rope_theta = 500000};
  ModelSpec gpt = llama, tied = llama, wide = llama, moe = llama;
  gpt.kind = "gpt";
  tied.rope_theta = 37;
  tied.kv_heads = 0;
  tied.tied_head = true;
  wide.width = 24;
  wide.kv_heads = 1;
  wide.hidden = 0;
  moe.kind = "moe";
  moe.rope_theta = 500;
  moe.experts = 5;
  moe.capacity_factor = 0.8;
  moe.balance_loss = 0.37;
  ModelSpec dropless = moe, written_out = gpt;
  dropless.experts = 3;
  dropless.capacity_factor = 0;
  written_out.engine = "cpu";
  return {{"gpt", written_out, 2},
          {"gpt", gpt, 2},
          {"llama", llama, 2},
          {"llama_tied", tied, 1},
          {"moe_1", moe, 1},
          {"moe_2", moe, 2},
          {"moe_4", moe, 4},
          {"moe_dropless", dropless, 2},
          {"llama_hidden", wide, 1},
          {"llama_tied_2", tied, 2},
          {"llama_tied_2", tied, 2, 3},
          {"llama", llama, 2, 3}};
}

struct Probe {
  double cosine, norm;
};

// The case's lines of the file, by their words before the numbers.
struct Golden {
  struct Parameter {
    std::string name;
    int64_t rows, cols;
    double scale, value;
    int clip_group;
  };
  std::vector<Parameter> parameters;
  std::map<std::string, Probe> probes;
  std::vector<Probe> updates;  // rate; clipped groups
  double clip = 0;
};

Golden Read(const std::string& wanted) {
  Golden golden;
  std::ifstream file(GoldenPath("models.txt"));
  std::string word, name, current;
  int update = 0, micro = 0;
  Probe probe{};
  while (file >> word) {
    const bool own = current == wanted;
    if (word == "case") {
      file >> current;
    } else if (word == "parameter") {
      Golden::Parameter p;
      file >> p.name >> p.rows >> p.cols >> p.scale >> p.value >> p.clip_group;
      if (own) golden.parameters.push_back(p);
    } else if (word == "clip") {
      file >> probe.norm;
      if (own) golden.clip = probe.norm;
    } else if (word == "update") {
      file >> update >> probe.cosine >> probe.norm;
      if (own) golden.updates.push_back(probe);
    } else if (word == "loss") {
      file >> update >> micro >> probe.cosine >> probe.norm;
      if (own) golden.probes[absl::StrCat("loss ", update, " ", micro)] = probe;
    } else {  // gradient, value
      file >> update >> name >> probe.cosine >> probe.norm;
      if (own) golden.probes[absl::StrCat(word, " ", update, " ", name)] = probe;
    }
  }
  return golden;
}

std::vector<int64_t> Ids(const ModelSpec& model, int64_t update, int64_t micro, int64_t shift) {
  std::vector<int64_t> ids(kRows * model.context);
  for (int64_t i = 0; i < std::ssize(ids); ++i) {
    const int64_t mixed = (i * i + 3 * i + 7 * update + 11 * micro + shift * (i + 5)) * 5 + i / 3;
    ids[static_cast<size_t>(i)] = mixed % model.vocab;
  }
  return ids;
}

void ExpectProbe(const Probe& want, const at::Tensor& x, double relative, const std::string& what) {
  const at::Tensor values = x.to(at::kCPU, at::kDouble);
  const at::Tensor i = at::arange(values.numel(), at::kDouble);
  const double cosine = (values * at::cos(i * 0.7 + 0.1)).sum().item<double>();
  const double norm = values.norm().item<double>();
  EXPECT_NEAR(cosine, want.cosine, relative * want.norm) << what;
  EXPECT_NEAR(norm, want.norm, relative * want.norm) << what;
}

class ModelsGolden : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    golden_ = Read(GetParam().file_name);
    const auto ends = NewMemoryGroup(2);
    std::set<int64_t> indices;
    for (int s = 0; s < GetParam().stages; ++s) {
      auto made = NewStage(GetParam().model, {.stage = s,
                                              .stages = GetParam().stages,
                                              .seed = 3,
                                              .microbatches = GetParam().microbatches,
                                              .compute = OnTestDevice(GetParam().model)});
      ASSERT_TRUE(made.ok()) << made.status();
      stages_.push_back(*std::move(made));
      for (const ParameterSlot& slot : stages_.back()->layout().slots) {
        indices.insert(slot.global_index);
      }
      if (!stages_.back()->layout().tied) continue;
      const auto peers = GetParam().stages > 1 ? ends[s == 0 ? 0 : 1] : nullptr;
      tied_.emplace_back(stages_.back().get(), peers);
    }
    ASSERT_EQ(indices.size(), golden_.parameters.size());
    ASSERT_EQ(golden_.updates.size(), 4u);
  }

  at::Tensor Part(const at::Tensor& flat, const ParameterSlot& slot) {
    return flat.narrow(0, slot.offset, slot.elements());
  }

  // sin(1 + 1.7 k + 2.3 i + 0.01 i^2) of parameter k; around a vector's own initial value.
  void Fill() {
    for (const auto& stage : stages_) {
      ChangeValues(stage->parameters(), [&](float* values) {
        for (const ParameterSlot& slot : stage->layout().slots) {
          const auto k = static_cast<double>(slot.global_index);
          const double center = slot.rows == 1 ? golden_.parameters[slot.global_index].value : 0;
          for (int64_t i = 0; i < slot.elements(); ++i) {
            const auto place = static_cast<double>(i);
            const double angle = 1 + 1.7 * k + 2.3 * place + 0.01 * place * place;
            values[slot.offset + i] = static_cast<float>(center + 0.35 * std::sin(angle));
          }
        }
      });
      stage->ParametersChanged();
    }
  }

  void Train(int update) {
    const int64_t n = kRows * GetParam().model.context;
    const float scale = 1.0f / static_cast<float>(GetParam().microbatches * n);
    for (int micro = 0; micro < GetParam().microbatches; ++micro) {
      const auto tokens = Ids(GetParam().model, update, micro, 0);
      const auto targets = Ids(GetParam().model, update, micro, 3);
      std::vector<double> losses(static_cast<size_t>(n));
      // x[s] enters stage s; its gradient goes the other way.
      const std::vector<at::Tensor> x = Boundaries(n), dx = Boundaries(n);
      std::vector<std::unique_ptr<Activations>> kept;
      for (size_t s = 0; s < stages_.size(); ++s) {
        kept.push_back(stages_[s]->NewActivations(kRows));
        stages_[s]->Forward(tokens, x[s], x[s + 1], kept[s].get());
      }
      stages_.back()->Loss(targets, scale, kept.back().get(), losses);
      stages_.back()->FinishLosses();
      for (size_t s = stages_.size(); s-- > 0;) {
        stages_[s]->Backward(tokens, dx[s + 1], dx[s], kept[s].get());
      }
      const std::string what = absl::StrCat("loss ", update, " ", micro);
      ExpectProbe(golden_.probes.at(what), at::tensor(losses, at::kDouble), 5e-5, what);
    }
    for (TiedHead& end : tied_) end.SendGradient();
    for (TiedHead& end : tied_) end.ReceiveGradient();
    for (TiedHead& end : tied_) end.AddGradient();
  }

  std::vector<at::Tensor> Boundaries(int64_t n) const {
    std::vector<at::Tensor> tensors(stages_.size() + 1);
    const auto there = at::TensorOptions().device(stages_.front()->parameters().device());
    for (size_t s = 1; s < stages_.size(); ++s) {
      tensors[s] = at::zeros({n, GetParam().model.width}, there);
    }
    return tensors;
  }

  void Compare(const char* word, int update, const at::Tensor& (Stage::*flat)() const,
               double relative) {
    for (const auto& stage : stages_) {
      for (const ParameterSlot& slot : stage->layout().slots) {
        const std::string what = absl::StrCat(word, " ", update, " ", slot.name);
        ASSERT_TRUE(golden_.probes.contains(what)) << what;
        ExpectProbe(golden_.probes.at(what), Part((stage.get()->*flat)(), slot), relative, what);
      }
    }
  }

  // Of a matrix in two stages both say that it was clipped.
  int ClippedTwice(int update) const {
    if (tied_.size() < 2) return 0;
    const std::string name = absl::StrCat("gradient ", update, " embedding.token");
    return golden_.probes.at(name).norm > golden_.clip;
  }

  Golden golden_;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::vector<TiedHead> tied_;
};

TEST_P(ModelsGolden, ParametersHaveTheirShapesScalesAndClipGroups) {
  const auto whole = NewStage(GetParam().model, {.stage = 0, .stages = 1, .seed = 3});
  ASSERT_TRUE(whole.ok());
  for (size_t k = 0; k < golden_.parameters.size(); ++k) {
    const Golden::Parameter& want = golden_.parameters[k];
    const ParameterSlot& slot = (*whole)->layout().slots[k];
    EXPECT_EQ(slot.name, want.name);
    EXPECT_EQ(slot.global_index, static_cast<int64_t>(k)) << want.name;
    EXPECT_EQ(slot.rows, want.rows) << want.name;
    EXPECT_EQ(slot.cols, want.cols) << want.name;
    EXPECT_EQ(slot.clip_group, want.clip_group) << want.name;
    EXPECT_EQ(slot.decays, want.scale != 0) << want.name;
    const at::Tensor values = Part((*whole)->parameters(), slot).to(at::kCPU, at::kDouble);
    if (want.scale == 0) {
      EXPECT_TRUE((values == want.value).all().item<bool>()) << want.name;
      continue;
    }
    // Five standard errors of the mean and of the standard deviation of n normal draws.
    const auto n = static_cast<double>(slot.elements());
    EXPECT_NEAR(values.mean().item<double>(), 0, 5 * want.scale / std::sqrt(n)) << want.name;
    EXPECT_NEAR(values.std().item<double>() / want.scale, 1, 5 / std::sqrt(2 * n)) << want.name;
  }
}

TEST_P(ModelsGolden, LossesGradientsAndUpdatesAreThoseOfPyTorch) {
  Fill();
  AdamWSpec spec{.lr = 0.02,
                 .min_lr_fraction = 0.25,
                 .warmup_steps = 2,
                 .beta1 = 0.8,
                 .beta2 = 0.9,
                 .eps = 1e-3,
                 .weight_decay = 0.3,
                 .clip_norm = golden_.clip};
  std::vector<AdamW> adamw;
  for (const auto& stage : stages_) adamw.emplace_back(spec, *stage);
  for (int update = 0; update < 4; ++update) {
    for (const auto& stage : stages_) stage->ZeroGradients();
    Train(update);
    // Float32 sums; the first update's gradients are of equal parameters.
    Compare("gradient", update, &Stage::gradients, update == 0 ? 2e-5 : 2e-4);
    EXPECT_NEAR(LearningRate(spec, update, 5), golden_.updates[update].cosine, 1e-12);
    int clipped = -ClippedTwice(update);
    for (size_t s = 0; s < stages_.size(); ++s) {
      clipped += adamw[s].Step(update, 5, stages_[s].get(), GradientNorms(*stages_[s]));
      stages_[s]->ParametersChanged();
    }
    EXPECT_EQ(clipped, golden_.updates[update].norm);
    Compare("value", update, &Stage::parameters, 2e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ModelsGolden, testing::ValuesIn(Cases()), [](const auto& info) {
  const std::string stages = info.param.stages > 1 ? absl::StrCat("_in_", info.param.stages) : "";
  return info.param.file_name + "_" + info.param.model.engine + stages;
});

// A kind that is added to the table is added here.
TEST(ModelsGoldenTable, EveryKindAndEngineOfTheTableIsHere) {
  std::vector<std::string> seen;
  for (const Case& c : Cases()) seen.push_back(c.model.kind + "_" + c.model.engine);
  for (const std::string& name : SmallModels()) {
    EXPECT_NE(std::find(seen.begin(), seen.end(), name), seen.end()) << name;
  }
}

}  // namespace
}  // namespace longhaul
