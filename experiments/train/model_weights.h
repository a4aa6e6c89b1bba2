#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "experiments/spec/spec.h"
#include "pp_group/stage_layout.h"

namespace longhaul {

// A tensor of a file and the rows of a parameter that it is.
struct WeightTensor {
  std::string name;
  std::vector<int64_t> shape;  // [rows, cols], or [cols] of a vector
  int64_t offset;              // elements from the parameter's start
};

// The tensors of one parameter, by the names that `transformers` gives them: Llama's for llama,
// Mixtral's for moe; for gpt, which it has not, the parameter's own name.
std::vector<WeightTensor> TensorsOf(const RunSpec& spec, const ParameterSlot& slot);

// Weights that exist (model.init), mapped and checked against the whole model.
class ModelWeights {
 public:
  // `path` as OpenWeightFiles takes it. InvalidArgument in one line: no safetensors file, a tensor
  // that the model has and the file has not or the reverse, another shape (said with both), a dtype
  // that is no float. NotFound.
  static absl::StatusOr<std::shared_ptr<const ModelWeights>> Open(const std::string& path,
                                                                  const RunSpec& spec);
  ~ModelWeights();

  // Writes a stage's parameters into `flat` ([flat_elements] f32, zeroed).
  absl::Status Fill(const StageLayout& layout, float* flat) const;
  // As WeightFiles::hash.
  const std::string& hash() const { return hash_; }

 private:
  struct File;
  ModelWeights(const RunSpec& spec, std::unique_ptr<File> file);

  const RunSpec spec_;
  const std::unique_ptr<File> file_;
  std::string hash_;
};

// Writes parameters as FOLDER/model.safetensors or, where they have more than `most_bytes`, as
// several files with an index, and for llama and moe the config.json beside it with which
// `transformers` reads the folder. `flat`: the whole model's buffer, in the layout of one stage.
// The folder is made where it is not there.
inline constexpr size_t kMostFileBytes = 5'000'000'000;  // as `transformers`
absl::Status WriteModelWeights(const std::string& folder, const RunSpec& spec, const float* flat,
                               size_t most_bytes = kMostFileBytes);

// So that a folder that cannot be is refused before training. Unavailable, in one line.
absl::Status MakeWeightFolder(const std::string& folder);  // "": nothing to do

// The same of one stage of spec.schedule: a file of its own; stage 0 adds the index and
// config.json. Where experts are spread over the groups, group `expert_rank` writes its experts,
// group 0 all else too; else it is 0. `flat`: the rank's buffer. The folder is whole when all have
// written.
absl::Status WriteStageWeights(const std::string& folder, const RunSpec& spec, int stage,
                               const float* flat, int expert_rank = 0);

}  // namespace longhaul
