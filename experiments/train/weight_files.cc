#include "experiments/train/weight_files.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compressors/numbers/sha256.h"

namespace longhaul {
namespace {

constexpr size_t kMostIndexBytes = 100'000'000;
constexpr char kIndexName[] = "model.safetensors.index.json";

absl::Status BadIndex(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("weights ", path, ": ", what));
}

// Adds a file's tensors; its hash is returned.
absl::StatusOr<std::string> AddFile(const std::string& path, WeightFiles* files) {
  auto mapped = MappedFile::Open("weights", path);
  if (!mapped.ok()) return mapped.status();
  auto entries = ParseSafetensors(path, (*mapped)->bytes());
  if (!entries.ok()) return entries.status();
  for (auto& [name, entry] : *entries) {
    if (!files->entries.emplace(name, std::move(entry)).second) {
      return BadIndex(path, absl::StrCat("has '", name, "', which another file has too"));
    }
  }
  std::string hash = Sha256Hex((*mapped)->bytes());
  files->mapped.push_back(*std::move(mapped));
  return hash;
}

// Which file has which tensor, as the index says.
absl::StatusOr<std::map<std::string, std::string>> ReadIndex(const std::string& path) {
  const auto mapped = MappedFile::Open("weights", path);
  if (!mapped.ok()) return mapped.status();
  const std::span<const std::byte> bytes = (*mapped)->bytes();
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

}  // namespace

absl::StatusOr<WeightFiles> OpenWeightFiles(const std::string& path) {
  WeightFiles files;
  if (std::error_code ignored; std::filesystem::is_directory(path, ignored)) {
    return absl::InvalidArgumentError(
        absl::StrCat("weights ", path,
                     ": a folder; want its model.safetensors or model.safetensors.index.json"));
  }
  if (!absl::EndsWith(path, ".json")) {
    absl::StatusOr<std::string> hash = AddFile(path, &files);
    if (!hash.ok()) return hash.status();
    files.hash = *std::move(hash);
    return files;
  }
  const auto file_of = ReadIndex(path);
  if (!file_of.ok()) return file_of.status();
  std::set<std::string> names;
  for (const auto& [tensor, file] : *file_of) names.insert(file);
  std::string hashes;
  for (const std::string& name : names) {
    const std::string file = (std::filesystem::path(path).parent_path() / name).string();
    const absl::StatusOr<std::string> hash = AddFile(file, &files);
    if (!hash.ok()) return hash.status();
    hashes += *hash;
    const std::span<const std::byte> bytes = files.mapped.back()->bytes();
    for (const auto& [tensor, of] : *file_of) {
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
  const auto file_of = ReadIndex(path);
  if (!file_of.ok()) return file_of.status();
  std::set<std::string> names;
  for (const auto& [tensor, file] : *file_of) names.insert(file);
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
  const std::string path = folder + "/" + kIndexName;
  std::ofstream file(path + ".part");
  file << index.dump(2) << "\n";
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(path + ".part", path, error);
  if (file && !error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("write ", path));
}

std::string WeightFileName(int index, int files) {
  if (files == 1) return "model.safetensors";
  return fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, files);
}

}  // namespace longhaul
