#include "experiments/train/weight_files.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "compressors/numbers/sha256.h"
#include "experiments/record/whole_file.h"
#include "experiments/train/model_weights.h"
#include "pp_group/state/checkpoint.h"

namespace longhaul {
namespace {

constexpr size_t kMostIndexBytes = 100'000'000;
constexpr char kIndexName[] = "model.safetensors.index.json";

absl::Status BadIndex(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("weights ", path, ": ", what));
}

// Adds a file's tensors; its hash is returned.
absl::StatusOr<std::string> AddFile(const std::string& path, WeightFiles* files) {
  ASSIGN_OR_RETURN(auto mapped, MappedFile::Open("weights", path));
  ASSIGN_OR_RETURN(auto entries, ParseSafetensors(path, mapped->bytes()));
  for (auto& [name, entry] : entries) {
    if (!files->entries.emplace(name, std::move(entry)).second) {
      return BadIndex(path, absl::StrCat("has '", name, "', which another file has too"));
    }
  }
  std::string hash = Sha256Hex(mapped->bytes());
  files->mapped.push_back(std::move(mapped));
  return hash;
}

// Which file has which tensor, as the index says.
absl::StatusOr<std::map<std::string, std::string>> ReadIndex(const std::string& path) {
  ASSIGN_OR_RETURN(const auto mapped, MappedFile::Open("weights", path));
  const std::span<const std::byte> bytes = mapped->bytes();
  if (bytes.size() > kMostIndexBytes) return BadIndex(path, "an index of more than 100 MB");
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const nlohmann::json index = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object() ||
      index["weight_map"].empty()) {
    return BadIndex(path, "no index: it is no JSON object with a 'weight_map'");
  }
  std::map<std::string, std::string> file_of;
  for (const auto& [tensor, file] : index["weight_map"].items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (!absl::EndsWith(name, ".safetensors") ||
        name.find_first_of(std::string("/\0", 2)) != std::string::npos) {
      return BadIndex(path,
                      "its 'weight_map' names something that is no safetensors file beside it");
    }
    file_of[tensor] = name;
  }
  return file_of;
}

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

absl::StatusOr<WeightFiles> OpenWeightFiles(const std::string& path) {
  WeightFiles files;
  if (std::error_code ignored; std::filesystem::is_directory(path, ignored)) {
    return absl::InvalidArgumentError(
        absl::StrCat("weights ", path,
                     ": a folder; want its model.safetensors or model.safetensors.index.json"));
  }
  if (!absl::EndsWith(path, ".json")) {
    ASSIGN_OR_RETURN(std::string hash, AddFile(path, &files));
    files.hash = std::move(hash);
    return files;
  }
  ASSIGN_OR_RETURN(const auto file_of, ReadIndex(path));
  std::set<std::string> names;
  for (const auto& [tensor, file] : file_of) names.insert(file);
  std::string hashes;
  for (const std::string& name : names) {
    const std::string file = (std::filesystem::path(path).parent_path() / name).string();
    ASSIGN_OR_RETURN(const std::string hash, AddFile(file, &files));
    hashes += hash;
    const std::span<const std::byte> bytes = files.mapped.back()->bytes();
    for (const auto& [tensor, of] : file_of) {
      if (of != name) continue;
      const auto found = files.entries.find(tensor);
      const bool here = found != files.entries.end() &&
                        (found->second.values.empty() ||
                         (found->second.values.data() >= bytes.data() &&
                          found->second.values.data() < bytes.data() + bytes.size()));
      if (!here) return BadIndex(path, absl::StrCat("'", tensor, "' is not in ", name));
    }
  }
  files.hash = Sha256Hex(std::as_bytes(std::span(hashes)));
  return files;
}

absl::StatusOr<std::vector<std::string>> WeightPaths(const std::string& path) {
  if (!absl::EndsWith(path, ".json")) return std::vector{path};
  ASSIGN_OR_RETURN(const auto file_of, ReadIndex(path));
  std::set<std::string> names;
  for (const auto& [tensor, file] : file_of) names.insert(file);
  std::vector<std::string> paths = {path};
  for (const std::string& name : names) {
    paths.push_back((std::filesystem::path(path).parent_path() / name).string());
  }
  return paths;
}

absl::Status WriteWeightIndex(const std::string& folder,
                              const std::map<std::string, std::string>& file_of_tensor,
                              int64_t total_bytes) {
  const nlohmann::ordered_json index = {{"metadata", {{"total_size", total_bytes}}},
                                        {"weight_map", file_of_tensor}};
  return WriteWholeFile(folder + "/" + kIndexName, index.dump(2) + "\n");
}

std::string WeightFileName(int index, int files) {
  if (files == 1) return "model.safetensors";
  return fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, files);
}

absl::Status ExportWeights(const std::string& checkpoints, const RunSpec& spec,
                           const std::string& folder) {
  std::error_code error;
  if (std::filesystem::exists(folder, error) && !std::filesystem::is_empty(folder, error)) {
    return absl::AlreadyExistsError(absl::StrCat(
        "export to ", folder, ": it is there and not an empty folder: name a new one"));
  }
  const ModelSpec model = spec.model;
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
    ASSIGN_OR_RETURN(const Checkpoint checkpoint, ReadCheckpoint(path));
    RETURN_IF_ERROR(CheckModelOf(checkpoint, model, path));
    const StageLayout layout = LayoutOf(OnExpertRank(model, group), s, stages, spec.schedule.cuts);
    const auto size = static_cast<size_t>(layout.flat_elements);
    ASSIGN_OR_RETURN(const auto bytes, checkpoint.Section("parameters", size * sizeof(float)));
    std::vector<float> values(size);
    std::memcpy(values.data(), bytes.data(), bytes.size());
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
