#include "experiments/train/model_weights.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "experiments/record/whole_file.h"
#include "experiments/train/safetensors.h"
#include "experiments/train/weight_files.h"

namespace longhaul {
namespace {

// Of a parameter within a block or at the ends; "" where `transformers` has none of this name.
struct Name {
  const char *ours, *theirs;
};
constexpr Name kEnds[] = {{"embedding.token", "model.embed_tokens.weight"},
                          {"norm.weight", "model.norm.weight"},
                          {"head", "lm_head.weight"}};
constexpr Name kInBlock[] = {{"norm1.weight", "input_layernorm.weight"},
                             {"attention.q", "self_attn.q_proj.weight"},
                             {"attention.k", "self_attn.k_proj.weight"},
                             {"attention.v", "self_attn.v_proj.weight"},
                             {"attention.out", "self_attn.o_proj.weight"},
                             {"norm2.weight", "post_attention_layernorm.weight"},
                             {"mlp.gate", "mlp.gate_proj.weight"},
                             {"mlp.up", "mlp.up_proj.weight"},
                             {"mlp.down", "mlp.down_proj.weight"},
                             {"router", "block_sparse_moe.gate.weight"},
                             {"experts.gate", "w1.weight"},
                             {"experts.up", "w3.weight"},
                             {"experts.down", "w2.weight"}};

std::string Find(std::span<const Name> names, const std::string& ours) {
  for (const Name& name : names) {
    if (ours == name.ours) return name.theirs;
  }
  return "";
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

absl::Status BadWeights(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("weights ", path, ": ", what));
}

nlohmann::ordered_json ConfigOf(const RunSpec& spec) {
  const ModelSpec model = spec.model;
  const bool moe = model.kind == "moe";
  nlohmann::ordered_json config = {
      {"architectures", {moe ? "MixtralForCausalLM" : "LlamaForCausalLM"}},
      {"model_type", moe ? "mixtral" : "llama"},
      {"hidden_size", model.width},
      {"intermediate_size", model.hidden_width()},
      {"num_hidden_layers", model.blocks},
      {"num_attention_heads", model.heads},
      {"num_key_value_heads", model.key_heads()},
      {"head_dim", model.width / model.heads},
      {"max_position_embeddings", model.context},
      {"vocab_size", model.vocab},
      {"rms_norm_eps", 1e-5},
      {"rope_theta", model.rope_theta},
      {"hidden_act", "silu"},
      {"tie_word_embeddings", model.tied_head},
      {"attention_bias", false},
      {"torch_dtype", "float32"}};
  if (!moe) {
    config["mlp_bias"] = false;
    return config;
  }
  config["num_local_experts"] = model.experts;
  config["num_experts_per_tok"] = 2;
  config["sliding_window"] = nullptr;
  config["router_aux_loss_coef"] = model.balance_loss;
  return config;
}

}  // namespace

std::vector<WeightTensor> TensorsOf(const RunSpec& spec, const ParameterSlot& slot) {
  const auto whole = [&](const std::string& name) {
    const std::vector<int64_t> shape =
        slot.decays ? std::vector<int64_t>{slot.rows, slot.cols} : std::vector<int64_t>{slot.cols};
    return std::vector<WeightTensor>{{name, shape, 0}};
  };
  if (spec.model.kind == "gpt") return whole(slot.name);
  if (const std::string name = Find(kEnds, slot.name); !name.empty()) return whole(name);
  const size_t dot = slot.name.find('.');
  const std::string in_block = slot.name.substr(dot + 1);
  // "block3." is model.layers.3.
  const std::string layer = absl::StrCat("model.layers.", slot.name.substr(5, dot - 5), ".");
  const std::string name = Find(kInBlock, in_block);
  if (!in_block.starts_with("experts.")) return whole(layer + name);
  std::vector<WeightTensor> parts;
  const int64_t rows = slot.whole_rows / spec.model.experts, first = slot.first_row / rows;
  for (int64_t e = 0; e < slot.rows / rows; ++e) {
    parts.push_back({absl::StrCat(layer, "block_sparse_moe.experts.", first + e, ".", name),
                     {rows, slot.cols},
                     e * rows * slot.cols});
  }
  return parts;
}

struct ModelWeights::File {
  std::string path;
  WeightFiles files;
};

ModelWeights::ModelWeights(const RunSpec& spec, std::unique_ptr<File> file)
    : spec_(spec), file_(std::move(file)), hash_(file_->files.hash) {}
ModelWeights::~ModelWeights() = default;

absl::StatusOr<std::shared_ptr<const ModelWeights>> ModelWeights::Open(const std::string& path,
                                                                       const RunSpec& spec) {
  ASSIGN_OR_RETURN(WeightFiles files, OpenWeightFiles(path));
  const std::map<std::string, SafeEntry>* const entries = &files.entries;
  std::set<std::string> wanted;
  for (const ParameterSlot& slot : LayoutOf(spec.model, 0, 1).slots) {
    for (const WeightTensor& tensor : TensorsOf(spec, slot)) {
      const auto found = entries->find(tensor.name);
      if (found == entries->end()) {
        return BadWeights(path, absl::StrCat("no '", tensor.name, "'",
                                             tensor.name == "lm_head.weight"
                                                 ? ", as where the embedding is the head: "
                                                   "then want model.tied_head = true"
                                                 : ""));
      }
      const SafeEntry& entry = found->second;
      if (entry.shape != tensor.shape) {
        return BadWeights(path, absl::StrCat("'", tensor.name, "' is ", ShapeText(entry.shape),
                                             ", and [model] makes it ", ShapeText(tensor.shape)));
      }
      if (entry.dtype != "F32" && entry.dtype != "BF16" && entry.dtype != "F16") {
        return BadWeights(
            path, absl::StrCat("'", tensor.name, "' is ", entry.dtype, ", want F32, BF16 or F16"));
      }
      wanted.insert(tensor.name);
    }
  }
  for (const auto& [name, entry] : *entries) {
    // Buffers and a tied head that some files carry hold nothing of their own.
    const bool derived = absl::EndsWith(name, "rotary_emb.inv_freq") ||
                         (spec.model.tied_head && name == "lm_head.weight");
    if (!derived && !wanted.contains(name)) {
      return BadWeights(path, absl::StrCat("has '", name, "', which this model has not"));
    }
  }
  auto file = std::make_unique<File>(File{path, std::move(files)});
  return std::shared_ptr<const ModelWeights>(new ModelWeights(spec, std::move(file)));
}

absl::Status ModelWeights::Fill(const StageLayout& layout, float* flat) const {
  for (const ParameterSlot& slot : layout.slots) {
    for (const WeightTensor& tensor : TensorsOf(spec_, slot)) {
      const auto found = file_->files.entries.find(tensor.name);
      if (found == file_->files.entries.end()) {
        return BadWeights(file_->path, absl::StrCat("no '", tensor.name, "'"));
      }
      size_t elements = 1;
      for (const int64_t size : tensor.shape) elements *= static_cast<size_t>(size);
      const absl::Status status =
          ConvertToFloat(found->second, {flat + slot.offset + tensor.offset, elements});
      if (!status.ok()) return BadWeights(file_->path, std::string(status.message()));
    }
  }
  return absl::OkStatus();
}

namespace {

// The tensors of a stage's layout; `spread_alone`: of its spread parameters.
std::vector<SafeTensor> SafeTensorsOf(const RunSpec& spec, const StageLayout& layout,
                                      const float* flat, bool spread_alone = false) {
  std::vector<SafeTensor> tensors;
  for (const ParameterSlot& slot : layout.slots) {
    if ((spread_alone && !slot.spread()) || layout.IsCopy(slot)) continue;
    for (WeightTensor& tensor : TensorsOf(spec, slot)) {
      size_t elements = 1;
      for (const int64_t size : tensor.shape) elements *= static_cast<size_t>(size);
      const float* const begin = flat == nullptr ? nullptr : flat + slot.offset + tensor.offset;
      tensors.push_back({std::move(tensor.name), std::move(tensor.shape), {begin, elements}});
    }
  }
  return tensors;
}

absl::Status WriteConfig(const std::string& folder, const RunSpec& spec) {
  if (spec.model.kind == "gpt") return absl::OkStatus();
  return WriteWholeFile(folder + "/config.json", ConfigOf(spec).dump(2) + "\n");
}

// One file of several; the index names it for its tensors.
absl::Status WritePart(const std::string& folder, int index, int files,
                       std::span<const SafeTensor> tensors) {
  return WriteSafetensors(absl::StrCat(folder, "/", WeightFileName(index, files)), tensors,
                          {{"format", "pt"}});
}

// Runs of tensors of at most this many bytes, or of one tensor.
std::vector<std::vector<SafeTensor>> Parts(std::vector<SafeTensor> tensors, size_t most_bytes) {
  std::vector<std::vector<SafeTensor>> parts;
  size_t bytes = 0;
  for (SafeTensor& tensor : tensors) {
    if (parts.empty() || bytes + tensor.values.size_bytes() > most_bytes) {
      parts.emplace_back();
      bytes = 0;
    }
    bytes += tensor.values.size_bytes();
    parts.back().push_back(std::move(tensor));
  }
  return parts;
}

absl::Status WriteIndexOf(const std::string& folder,
                          const std::vector<std::vector<SafeTensor>>& parts) {
  std::map<std::string, std::string> file_of;
  int64_t total = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    for (const SafeTensor& tensor : parts[p]) {
      file_of[tensor.name] = WeightFileName(static_cast<int>(p), static_cast<int>(parts.size()));
      total += static_cast<int64_t>(tensor.values.size_bytes());
    }
  }
  return WriteWeightIndex(folder, file_of, total);
}

}  // namespace

absl::Status MakeWeightFolder(const std::string& folder) {
  if (folder.empty()) return absl::OkStatus();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const bool writable = !error && access(folder.c_str(), W_OK) == 0;
  if (writable) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      "'model.save': the folder '", folder, "' cannot be ", error ? "made: " : "written: ",
      error ? error.message() : std::strerror(errno), "; name one that this user may write"));
}

absl::Status WriteModelWeights(const std::string& folder, const RunSpec& spec, const float* flat,
                               size_t most_bytes) {
  RETURN_IF_ERROR(MakeWeightFolder(folder));
  const auto parts = Parts(SafeTensorsOf(spec, LayoutOf(spec.model, 0, 1), flat), most_bytes);
  const auto count = static_cast<int>(parts.size());
  for (int p = 0; p < count; ++p) {
    RETURN_IF_ERROR(WritePart(folder, p, count, parts[static_cast<size_t>(p)]));
  }
  if (count > 1) {
    RETURN_IF_ERROR(WriteIndexOf(folder, parts));
  }
  return WriteConfig(folder, spec);
}

absl::Status WriteStageWeights(const std::string& folder, const RunSpec& spec, int stage,
                               const float* flat, int expert_rank) {
  RETURN_IF_ERROR(MakeWeightFolder(folder));
  const auto stages = static_cast<int>(spec.schedule.stages);
  const auto holders = static_cast<int>(spec.model.expert_parallel);
  const auto part = [&](int s, int holder, const float* values) {
    const StageLayout layout =
        LayoutOf(OnExpertRank(spec.model, holder), s, stages, spec.schedule.cuts);
    return SafeTensorsOf(spec, layout, values, /*spread_alone=*/holder > 0);
  };
  const int files = stages * holders, index = stage * holders + expert_rank;
  const absl::Status written = WritePart(folder, index, files, part(stage, expert_rank, flat));
  if (!written.ok() || index > 0) return written;
  std::vector<std::vector<SafeTensor>> parts;
  for (int f = 0; f < files; ++f) parts.push_back(part(f / holders, f % holders, nullptr));
  if (files > 1) {
    RETURN_IF_ERROR(WriteIndexOf(folder, parts));
  }
  return WriteConfig(folder, spec);
}

}  // namespace longhaul
