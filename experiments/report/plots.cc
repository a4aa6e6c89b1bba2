#include "experiments/report/plots.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "absl/status/statusor.h"
#include "experiments/report/plots_script.h"

namespace longhaul {
namespace {

std::string LastLine(const std::string& file) {
  std::ifstream in(file);
  std::string line, last;
  while (std::getline(in, line)) {
    if (!line.empty()) last = line;
  }
  return last;
}

// Starts `python -B scripts folder...`. Returns its exit status.
absl::StatusOr<int> Spawn(const std::string& python, const std::string& scripts,
                          const std::vector<std::string>& folders, const std::string& log) {
  std::vector<std::string> words = {python, "-B", scripts};
  words.insert(words.end(), folders.begin(), folders.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int error = posix_spawnp(&child, python.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return absl::FailedPreconditionError(fmt::format("start {}: {}", python, std::strerror(error)));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

absl::Status MakeReportFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return absl::OkStatus();
  return absl::PermissionDeniedError(fmt::format("make folder {}: {}", path, error.message()));
}

std::string ReadSvg(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  const std::string svg = text.str();
  const size_t start = svg.find("<svg");
  return start == std::string::npos ? "" : svg.substr(start);
}

absl::Status DrawPlots(const std::string& python, const std::vector<std::string>& folders,
                       const std::string& log) {
  const std::string scripts = log + ".d";
  std::error_code ignored;
  std::filesystem::create_directory(scripts, ignored);
  for (const EmbeddedFile& file : kPlotsFiles) {
    std::ofstream(fmt::format("{}/{}", scripts, file.name)) << file.text;
  }
  const absl::StatusOr<int> status = Spawn(python, scripts, folders, log);
  std::filesystem::remove_all(scripts, ignored);
  if (!status.ok()) return status.status();
  if (*status == 0) return absl::OkStatus();
  const std::string last = LastLine(log);
  return absl::FailedPreconditionError(
      fmt::format("{} ended with {}: {}", python, *status,
                  last.empty() ? std::string("it said nothing") : last));
}

}  // namespace longhaul
