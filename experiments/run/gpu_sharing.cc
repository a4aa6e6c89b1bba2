#include "experiments/run/gpu_sharing.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include <fmt/format.h>

namespace longhaul {
namespace {

constexpr char kPipeVariable[] = "CUDA_MPS_PIPE_DIRECTORY",
               kLogVariable[] = "CUDA_MPS_LOG_DIRECTORY";
constexpr char kUsualPipe[] = "/tmp/nvidia-mps";
constexpr int kLookMs = 50, kLooks = 100;  // five seconds to begin, and to end

bool IsThere(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

std::string LastLine(const std::string& path) {
  std::ifstream file(path);
  std::string line, last;
  while (std::getline(file, line)) {
    if (!line.empty()) last = line;
  }
  return last;
}

// Starts `control` with one option, or none, and `words` to read; what it says goes into the file `said`. A child that cannot become it ends with 127.
pid_t StartControl(const std::string& control, const char* option, const std::string& said,
                   const char* words) {
  int in[2];
  if (pipe2(in, O_CLOEXEC) != 0) return -1;
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1);
    const int out = open(said.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(in[0], STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execlp(control.c_str(), control.c_str(), option, nullptr);
    fmt::print(stderr, "{}\n", std::strerror(errno));
    _exit(127);
  }
  close(in[0]);
  if (child > 0 && write(in[1], words, std::strlen(words)) < 0) {
    // it has ended; its status says so
  }
  close(in[1]);
  return child;
}

// True: it has ended, and *status says how.
bool EndsWithin(pid_t child, int looks, int* status) {
  for (int i = 0; i < looks; ++i) {
    if (waitpid(child, status, WNOHANG) != 0) return true;
    poll(nullptr, 0, kLookMs);
  }
  return false;
}

}  // namespace

GpuSharing GpuSharing::Turns(const std::string& why) {
  GpuSharing sharing;
  sharing.words_ = "turns: " + why;
  return sharing;
}

GpuSharing GpuSharing::Start(const std::string& control) {
  const char* const set = std::getenv(kPipeVariable);
  if (IsThere(fmt::format("{}/control", set != nullptr ? set : kUsualPipe))) {
    GpuSharing sharing;
    sharing.on_ = true;
    sharing.words_ = "MPS, which was there";
    return sharing;
  }
  absl::StatusOr<std::unique_ptr<TemporaryFolder>> folder = TemporaryFolder::Make();
  if (!folder.ok()) return Turns(std::string(folder.status().message()));
  const std::string path = (*folder)->path(), said = path + "/said";
  setenv(kPipeVariable, path.c_str(), 1);
  setenv(kLogVariable, path.c_str(), 1);
  const pid_t child = StartControl(control, "-f", said, "");
  int status = 0;
  bool ended = child < 0;
  for (int i = 0; i < kLooks && !ended && !IsThere(path + "/control"); ++i)
    ended = EndsWithin(child, 1, &status);
  if (child > 0 && !ended && IsThere(path + "/control")) {
    GpuSharing sharing;
    sharing.on_ = true;
    sharing.words_ = "MPS";
    sharing.control_ = control;
    sharing.folder_ = *std::move(folder);
    sharing.child_ = child;
    return sharing;
  }
  unsetenv(kPipeVariable);
  unsetenv(kLogVariable);
  if (child > 0 && !ended) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return Turns(fmt::format("{} was not ready after {} s", control, kLookMs * kLooks / 1000));
  }
  const std::string last = LastLine(said);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    return Turns(fmt::format("start {}: {}", control, last));
  return Turns(fmt::format("{} ended: {}", control, last.empty() ? "it said nothing" : last));
}

GpuSharing::GpuSharing(GpuSharing&& other) noexcept
    : on_(other.on_),
      words_(std::move(other.words_)),
      control_(std::move(other.control_)),
      folder_(std::move(other.folder_)),
      child_(std::exchange(other.child_, -1)) {}

GpuSharing::~GpuSharing() {
  if (child_ < 0) return;
  int status = 0;
  const pid_t told = StartControl(control_, nullptr, folder_->path() + "/said", "quit\n");
  if (told > 0 && !EndsWithin(told, kLooks, &status)) {
    kill(told, SIGKILL);
    waitpid(told, &status, 0);
  }
  if (!EndsWithin(child_, kLooks, &status)) {
    kill(child_, SIGKILL);
    waitpid(child_, &status, 0);
  }
  unsetenv(kPipeVariable);
  unsetenv(kLogVariable);
}

}  // namespace longhaul
