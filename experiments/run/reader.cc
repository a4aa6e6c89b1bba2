#include "experiments/run/reader.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "base/status_macros.h"

namespace longhaul {
namespace {

std::optional<std::string> TakePython(std::vector<std::string>* words) {
  const std::string flag = "--python";
  for (size_t i = 1; i < words->size(); ++i) {
    const auto at = words->begin() + static_cast<std::ptrdiff_t>(i);
    if (*at == "--") return std::nullopt;
    if (*at == flag && i + 1 < words->size()) {
      std::string named = *(at + 1);
      words->erase(at, at + 2);
      return named;
    }
    if (at->starts_with(flag + "=")) {
      std::string named = at->substr(flag.size() + 1);
      words->erase(at);
      return named;
    }
  }
  return std::nullopt;
}

struct CommandOfReader {
  std::string python;
  std::vector<std::string> words;
};

absl::StatusOr<CommandOfReader> CommandFor(std::vector<std::string> words) {
  const std::optional<std::string> named = TakePython(&words);
  CommandOfReader command{.python = named ? *named : ReaderPython(), .words = {}};
  ASSIGN_OR_RETURN(command.words, CommandOfModule("commands", std::move(words)));
  command.words.front() = command.python;
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  setenv("LONGHAUL_READS", "1", 1);
  setenv("LONGHAUL_COMMAND", (self.parent_path() / "longhaul").c_str(), 1);
  return command;
}

absl::Status CannotStart(const std::string& python, int error) {
  return absl::FailedPreconditionError(
      fmt::format("start {}: {}; name an interpreter with --python", python, std::strerror(error)));
}

// A file without a name that holds `text`, at its beginning.
absl::StatusOr<int> InMemory(const std::string& text) {
  const int file = memfd_create("longhaul-reader", MFD_CLOEXEC);
  size_t at = 0;
  while (file >= 0 && at < text.size()) {
    const ssize_t wrote = write(file, text.data() + at, text.size() - at);
    if (wrote < 0) break;
    at += static_cast<size_t>(wrote);
  }
  if (file >= 0 && at == text.size() && lseek(file, 0, SEEK_SET) == 0) return file;
  const int error = errno;
  if (file >= 0) close(file);
  return absl::UnavailableError(
      fmt::format("hold {} bytes in memory for Python: {}", text.size(), std::strerror(error)));
}

}  // namespace

bool IsReaderVerb(std::string_view word) {
  return std::any_of(std::begin(kReaderVerbs), std::end(kReaderVerbs),
                     [word](const ReaderVerb& verb) { return verb.name == word; });
}

absl::Status BecomeReader(std::vector<std::string> words) {
  ASSIGN_OR_RETURN(CommandOfReader command, CommandFor(std::move(words)));
  execvp(command.python.c_str(), Argv(command.words).data());
  return CannotStart(command.python, errno);
}

absl::StatusOr<ReaderAnswer> AskReader(std::vector<std::string> words, const std::string& input) {
  ASSIGN_OR_RETURN(CommandOfReader command, CommandFor(std::move(words)));
  ASSIGN_OR_RETURN(const int in, InMemory(input));
  std::array<int, 2> out{};
  if (pipe2(out.data(), O_CLOEXEC) != 0) {
    close(in);
    return absl::UnavailableError(fmt::format("make a pipe for Python: {}", std::strerror(errno)));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in, 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  pid_t child = 0;
  const int error = posix_spawnp(&child, command.python.c_str(), &actions, nullptr,
                                 Argv(command.words).data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  unsetenv("LONGHAUL_READS");
  close(in);
  close(out[1]);
  ReaderAnswer answer;
  std::array<char, 1 << 14> part{};
  while (error == 0) {
    const ssize_t got = read(out[0], part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    answer.output.append(part.data(), static_cast<size_t>(got));
  }
  close(out[0]);
  if (error != 0) return CannotStart(command.python, error);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  answer.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return answer;
}

}  // namespace longhaul
