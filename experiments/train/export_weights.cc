#include "experiments/train/export_weights.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "experiments/train/model_of_spec.h"
#include "experiments/train/model_weights.h"
#include "pp_group/state/checkpoint.h"

namespace longhaul {
namespace {

// Steps of which every stage of these groups has a file, ascending.
std::vector<int64_t> CommonSteps(const std::string& checkpoints, int groups, int stages) {
  std::vector<int64_t> common = CheckpointSteps(checkpoints, 0, 0);
  for (int i = 1; i < groups * stages; ++i) {
    const std::vector<int64_t> own = CheckpointSteps(checkpoints, i / stages, i % stages);
    std::vector<int64_t> both;
    std::set_intersection(common.begin(), common.end(), own.begin(), own.end(),
                          std::back_inserter(both));
    common = std::move(both);
  }
  return common;
}

// The checkpoint says in its text what it is of.
absl::Status CheckModelOf(const Checkpoint& checkpoint, const ModelSpec& model,
                          const std::string& path) {
  const std::string text = absl::StrCat("\n", checkpoint.spec);
  for (const auto& [name, value] : {std::pair{"blocks", model.blocks},
                                    {"width", model.width},
                                    {"heads", model.heads},
                                    {"context", model.context},
                                    {"vocab", model.vocab},
                                    {"expert_parallel", model.expert_parallel}}) {
    // Where experts are not spread the text says nothing of it.
    const bool silent = name == std::string_view("expert_parallel") && value == 1;
    const std::string line =
        silent ? absl::StrCat("\n", name, "=") : absl::StrCat("\n", name, "=", value, "\n");
    if ((text.find(line) == std::string::npos) != silent) {
      return absl::InvalidArgumentError(
          absl::StrCat("checkpoint ", path, ": not of a model with ", name, " = ", value));
    }
  }
  return absl::OkStatus();
}

// Copies each parameter of a stage to where it lies in the whole model.
void CopySlots(const StageLayout& stage, const float* from, const StageLayout& whole, float* to) {
  for (const ParameterSlot& slot : stage.slots) {
    const auto at = std::find_if(whole.slots.begin(), whole.slots.end(),
                                 [&](const ParameterSlot& s) { return s.name == slot.name; });
    std::copy_n(from + slot.offset, slot.elements(), to + at->offset + slot.first_row * slot.cols);
  }
}

}  // namespace

absl::Status ExportWeights(const std::string& checkpoints, const RunSpec& spec,
                           const std::string& folder) {
  std::error_code error;
  if (std::filesystem::exists(folder, error) && !std::filesystem::is_empty(folder, error)) {
    return absl::AlreadyExistsError(absl::StrCat(
        "export to ", folder, ": it is there and not an empty folder: name a new one"));
  }
  const ModelSpec model = ToModelSpec(spec);
  const auto stages = static_cast<int>(spec.schedule.stages);
  // Group 0 has everything, or each group some experts.
  const auto groups = static_cast<int>(model.expert_parallel);
  const std::vector<int64_t> steps = CommonSteps(checkpoints, groups, stages);
  if (steps.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no step of which all ", stages, " stages of ",
                     groups == 1 ? "group 0" : absl::StrCat("groups 0 to ", groups - 1),
                     " have a checkpoint in ", checkpoints));
  }
  const StageLayout whole = LayoutOf(model, 0, 1);
  std::vector<float> flat(static_cast<size_t>(whole.flat_elements));
  for (int i = 0; i < groups * stages; ++i) {
    const int group = i / stages, s = i % stages;
    const std::string path = CheckpointPath(checkpoints, group, s, steps.back());
    const absl::StatusOr<Checkpoint> checkpoint = ReadCheckpoint(path);
    if (!checkpoint.ok()) return checkpoint.status();
    if (absl::Status bad = CheckModelOf(*checkpoint, model, path); !bad.ok()) return bad;
    const StageLayout layout = LayoutOf(OnExpertRank(model, group), s, stages, spec.schedule.cuts);
    const auto size = static_cast<size_t>(layout.flat_elements);
    const auto bytes = checkpoint->Section("parameters", size * sizeof(float));
    if (!bytes.ok()) return bytes.status();
    std::vector<float> values(size);
    std::memcpy(values.data(), bytes->data(), bytes->size());
    CopySlots(layout, values.data(), whole, flat.data());
  }
  // Half an export must not pass for one.
  absl::Status written = WriteModelWeights(folder, spec, flat.data());
  if (!written.ok()) {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  return written;
}

}  // namespace longhaul
