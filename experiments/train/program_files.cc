#include "experiments/train/program_files.h"

#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include <fmt/format.h>

namespace longhaul {
namespace {

bool IsProgram(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

}  // namespace

std::filesystem::path FolderOfProgram(const RunSpec& spec) {
  return spec.program->folder.empty() ? "." : spec.program->folder;
}

absl::Status CheckProgram(const RunSpec& spec) {
  const RunSpec::Program& program = *spec.program;
  const std::filesystem::path folder = FolderOfProgram(spec);
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    return absl::NotFoundError(fmt::format("program.folder: no folder {}", folder.string()));
  }
  for (const std::string& file : program.files) {
    if (std::filesystem::is_regular_file(folder / file, error)) continue;
    return absl::NotFoundError(
        fmt::format("program.files: no file {}", (folder / file).lexically_normal().string()));
  }
  const std::string& first = program.command.front();
  if (first.find('/') != first.npos) {
    if (IsProgram(folder / first)) return absl::OkStatus();
    return absl::NotFoundError(fmt::format("program.command: no program {}",
                                           (folder / first).lexically_normal().string()));
  }
  const auto own_path = program.environment.find("PATH");
  const char* const path =
      own_path != program.environment.end() ? own_path->second.c_str() : getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string place; std::getline(folders, place, ':');) {
    if (IsProgram(std::filesystem::path(place.empty() ? "." : place) / first)) {
      return absl::OkStatus();
    }
  }
  return absl::NotFoundError(fmt::format("program.command: no '{}' in $PATH", first));
}

std::vector<std::string> FilesOfProgram(const RunSpec& spec) {
  std::vector<std::string> words = spec.program->command;
  words.insert(words.end(), spec.program->files.begin(), spec.program->files.end());
  std::vector<std::string> files;
  for (const std::string& word : words) {
    std::error_code error;
    const std::filesystem::path path = FolderOfProgram(spec) / word;
    if (std::filesystem::is_regular_file(path, error)) {
      files.push_back(path.lexically_normal().string());
    }
  }
  return files;
}

}  // namespace longhaul
