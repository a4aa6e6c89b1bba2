#include "experiments/train/python_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "experiments/record/python_command.h"

namespace longhaul {
namespace {

absl::Status Failed(const std::string& what, int error) {
  return absl::UnavailableError(absl::StrCat(what, ": ", strerror(error)));
}

int64_t BytesOf(int64_t elements) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  const int64_t bytes = std::max<int64_t>(elements, 1) * static_cast<int64_t>(sizeof(float));
  return (bytes + page - 1) / page * page;
}

// With the environment of this process, and what keeps the package from registering its backend.
std::vector<std::string> EnvironmentOf(int64_t threads) {
  std::vector<std::string> words;
  for (char** word = environ; *word != nullptr; ++word) {
    if (!std::string_view(*word).starts_with("OMP_NUM_THREADS=")) words.emplace_back(*word);
  }
  words.push_back(absl::StrCat("OMP_NUM_THREADS=", threads));
  words.emplace_back("LONGHAUL_READS=1");
  return words;
}

// Its standard input is `socket`, both ways; what it prints goes where our errors go; `memory` keeps
// its number.
absl::StatusOr<pid_t> Start(int socket, int memory, int64_t threads) {
  ASSIGN_OR_RETURN(std::vector<std::string> words,
                   CommandOfModule("hooks", {absl::StrCat(memory), absl::StrCat(getpid())}));
  std::vector<std::string> environment = EnvironmentOf(threads);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, socket, 0);
  posix_spawn_file_actions_adddup2(&actions, 2, 1);
  posix_spawn_file_actions_adddup2(&actions, memory, memory);
  pid_t child = 0;
  const int error = posix_spawnp(&child, words.front().c_str(), &actions, nullptr,
                                 Argv(words).data(), Argv(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return Failed(absl::StrCat("start ", words.front()), error);
  return child;
}

}  // namespace

absl::StatusOr<std::shared_ptr<PythonProcess>> PythonProcess::OfThisProcess(int64_t threads) {
  static std::mutex mutex;
  static std::weak_ptr<PythonProcess> running;
  const std::lock_guard lock(mutex);
  if (auto there = running.lock()) return there;
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return Failed("make a socket for Python", errno);
  }
  const int memory = memfd_create("longhaul-python", MFD_CLOEXEC);
  if (memory < 0) return Failed("make memory for Python", errno);
  const absl::StatusOr<pid_t> pid = Start(ends[1], memory, threads);
  close(ends[1]);
  if (!pid.ok()) {
    close(ends[0]);
    close(memory);
    return pid.status();
  }
  const std::shared_ptr<PythonProcess> started(new PythonProcess(*pid, ends[0], memory));
  RETURN_IF_ERROR(started->Ask({{"do", "begin"}, {"threads", threads}}).status());
  running = started;
  return started;
}

PythonProcess::~PythonProcess() {
  close(socket_);
  close(memory_);
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

absl::Status PythonProcess::Ended() {
  return absl::UnavailableError(absl::StrCat(
      "the Python process ", pid_, " has ended: what it printed stands in the log above"));
}

absl::StatusOr<std::string> PythonProcess::ReadLine() {
  std::array<char, 1 << 12> part{};
  size_t end = 0;
  while ((end = pending_.find('\n')) == std::string::npos) {
    const ssize_t n = read(socket_, part.data(), part.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Ended();
    pending_.append(part.data(), static_cast<size_t>(n));
  }
  std::string line = pending_.substr(0, end);
  pending_.erase(0, end + 1);
  return line;
}

absl::StatusOr<nlohmann::json> PythonProcess::Ask(const nlohmann::json& request) {
  const std::lock_guard lock(mutex_);
  const std::string line = request.dump() + "\n";
  for (size_t at = 0; at < line.size();) {
    const ssize_t n = send(socket_, line.data() + at, line.size() - at, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Ended();
    at += static_cast<size_t>(n);
  }
  ASSIGN_OR_RETURN(const std::string answered, ReadLine());
  const nlohmann::json answer =
      nlohmann::json::parse(answered, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object()) return absl::InternalError("Python answered '" + answered + "'");
  if (!answer.contains("error")) return answer;
  return absl::FailedPreconditionError(answer.at("error").get<std::string>());
}

absl::StatusOr<PythonProcess::Place> PythonProcess::NewTensor(int64_t elements) {
  const Place place{end_, elements};
  if (const int error = posix_fallocate(memory_, end_, BytesOf(elements)); error != 0) {
    return Failed(absl::StrCat("take ", BytesOf(elements), " bytes of memory for Python"), error);
  }
  end_ += BytesOf(elements);
  return place;
}

absl::StatusOr<at::Tensor> PythonProcess::ViewOf(Place place) const {
  const auto bytes = static_cast<size_t>(BytesOf(place.elements));
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_, place.at);
  if (mapped == MAP_FAILED) return Failed(absl::StrCat("map ", bytes, " bytes for Python"), errno);
  return at::from_blob(
      mapped, {place.elements}, [bytes](void* at) { munmap(at, bytes); },
      at::TensorOptions(at::kFloat));
}

void PythonProcess::Forget(std::span<const Place> places) {
  for (const Place& place : places) {
    fallocate(memory_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, place.at,
              BytesOf(place.elements));
  }
}

}  // namespace longhaul
