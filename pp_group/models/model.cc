#include "pp_group/models/model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "pp_group/device_check.h"
#include "pp_group/engines/aten/stage.h"
#include "pp_group/engines/cpu/gpt_stage.h"
#include "pp_group/engines/injected/stage.h"
#include "pp_group/models/llama.h"
#include "pp_group/models/models.h"

namespace longhaul {
namespace {

std::unique_ptr<Stage> NewCpuGpt(const ModelSpec& spec, const StageOptions& o) {
  return std::make_unique<CpuGptStage>(spec, o.stage, o.stages, o.seed, o.cuts);
}
template <AtenStage::NewModel kNew>
std::unique_ptr<Stage> NewAten(const ModelSpec& spec, const StageOptions& options) {
  return std::make_unique<AtenStage>(spec, options, kNew);
}

struct Entry {
  const char *kind, *engine;
  StageLayout (*layout)(const ModelSpec&, int, int, std::span<const int64_t>);
  std::unique_ptr<Stage> (*stage)(const ModelSpec&, const StageOptions&);
};
// For "auto" the first that can. Adding a model = a line + its two files + one CMake word.
constexpr Entry kModels[] = {
    {"gpt", "cpu", GptLayout, NewCpuGpt},
    {"gpt", "aten", GptLayout, NewAten<NewAtenGpt>},
    {"llama", "aten", LlamaLayout, NewAten<NewAtenLlama>},
    {"moe", "aten", MoeLayout, NewAten<NewAtenMoe>},
};

template <typename... Parts>
absl::Status BadModel(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("model ", parts...));
}

std::vector<std::string> Distinct(const char* Entry::*name) {
  std::vector<std::string> names;
  for (const Entry& entry : kModels) {
    if (std::find(names.begin(), names.end(), entry.*name) == names.end()) {
      names.emplace_back(entry.*name);
    }
  }
  return names;
}

// The written-out engine has no device, dtype or memory to choose.
std::string Missing(const Entry& entry, const ComputeSpec& compute) {
  if (std::string_view(entry.engine) != "cpu") return "";
  if (compute.device != "cpu") return absl::StrCat("device '", compute.device, "'");
  if (compute.dtype != "float32") return compute.dtype;
  return compute.recompute ? "recomputation" : "";
}

const Entry* Find(const ModelSpec& model, const ComputeSpec& compute) {
  for (const Entry& entry : kModels) {
    if (model.kind == entry.kind && (model.engine == "auto" || model.engine == entry.engine) &&
        Missing(entry, compute).empty()) {
      return &entry;
    }
  }
  return nullptr;
}

absl::Status CheckNumbers(const ModelSpec& model) {
  for (const auto& [name, value] : {std::pair<const char*, int64_t>{"blocks", model.blocks},
                                    {"width", model.width},
                                    {"heads", model.heads},
                                    {"context", model.context},
                                    {"vocab", model.vocab},
                                    {"experts", model.experts}}) {
    if (value < 1) return BadModel(name, " is ", value, ", want 1 or more");
  }
  if (model.width % model.heads != 0) {
    return BadModel("width ", model.width, " is not divisible by ", model.heads, " heads");
  }
  if (model.kind == "gpt") return absl::OkStatus();
  if (model.kv_heads < 0 || model.hidden < 0) {
    return BadModel("kv_heads ", model.kv_heads, ", hidden ", model.hidden, ": want 0 or more");
  }
  if (model.heads % model.key_heads() != 0) {
    return BadModel("heads ", model.heads, " are not divisible by ", model.key_heads(),
                    " kv_heads");
  }
  if (model.width / model.heads % 2 != 0) {
    return BadModel("heads of ", model.width / model.heads,
                    " elements: rotary positions want an even number");
  }
  if (!(model.rope_theta > 1)) return BadModel("rope_theta ", model.rope_theta, ", want above 1");
  if (model.kind != "moe") return absl::OkStatus();
  if (model.experts < 2) return BadModel("experts ", model.experts, ": a token takes two");
  if (!(model.capacity_factor >= 0 && model.capacity_factor < 1e6) ||
      !(model.balance_loss >= 0 && model.balance_loss < 1e6)) {
    return BadModel("capacity_factor ", model.capacity_factor, ", balance_loss ",
                    model.balance_loss, ": want 0 or more, finite");
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> ModelKinds() { return Distinct(&Entry::kind); }
std::vector<std::string> ModelEngines() { return Distinct(&Entry::engine); }

absl::StatusOr<std::string> EngineOf(const ModelSpec& model, const ComputeSpec& compute) {
  if (const Entry* entry = Find(model, compute)) return entry->engine;
  std::vector<std::string> of_kind, why;
  for (const Entry& entry : kModels) {
    if (model.kind != entry.kind) continue;
    of_kind.emplace_back(entry.engine);
    if (model.engine == entry.engine) why.push_back(Missing(entry, compute));
  }
  if (of_kind.empty()) {
    return BadModel("kind '", model.kind, "'; known: ", absl::StrJoin(ModelKinds(), ", "));
  }
  if (why.empty()) {
    return BadModel("kind '", model.kind, "' has no engine '", model.engine, "'; it has: auto, ",
                    absl::StrJoin(of_kind, ", "));
  }
  return BadModel("engine '", model.engine, "' cannot do ", why.front(),
                  "; want engine 'aten' or 'auto'");
}

absl::Status CheckModel(const ModelSpec& model, const ComputeSpec& compute) {
  RETURN_IF_ERROR(CheckNumbers(model));
  if (absl::StatusOr<std::string> engine = EngineOf(model, compute); !engine.ok()) {
    return engine.status();
  }
  if (model.tied_head && model.kind == "gpt") return BadModel("kind 'gpt' has no tied head");
  return CheckDevice(compute);
}

StageLayout LayoutOf(const ModelSpec& spec, int stage, int stages, std::span<const int64_t> cuts) {
  for (const Entry& entry : kModels) {
    if (spec.kind == entry.kind) return entry.layout(spec, stage, stages, cuts);
  }
  return EmptyLayout(spec.blocks, stage, stages, cuts);
}

ModelSpec OnExpertRank(ModelSpec spec, int rank) {
  if (spec.expert_parallel > 1) spec.expert_rank = rank;
  return spec;
}

int64_t ParameterCount(const ModelSpec& spec) { return LayoutOf(spec, 0, 1).parameter_elements; }

absl::StatusOr<std::unique_ptr<Stage>> NewStage(const ModelSpec& model,
                                                const StageOptions& options) {
  if (options.injected != nullptr) {
    return std::make_unique<InjectedStage>(
        StageShape{model.context, model.width, model.vocab},
        LayoutOf(model, options.stage, options.stages, options.cuts), options.seed,
        *options.injected, options.now);
  }
  const Entry* const entry = Find(model, options.compute);
  if (entry == nullptr) return EngineOf(model, options.compute).status();
  if (options.expert_peers != nullptr) {
    const int ranks = options.expert_peers->getSize();
    if (model.kind != "moe") {
      return BadModel("kind '", model.kind, "' has no experts to spread over ", ranks, " ranks");
    }
    if (model.experts % ranks != 0) {
      return BadModel("experts ", model.experts, " do not divide over ", ranks, " ranks");
    }
  }
  ModelSpec held = model;
  if (options.expert_peers != nullptr) {
    held.expert_parallel = options.expert_peers->getSize();
    held = OnExpertRank(std::move(held), options.expert_peers->getRank());
  }
  return entry->stage(held, options);
}

}  // namespace longhaul
