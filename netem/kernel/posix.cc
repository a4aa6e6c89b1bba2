#include "netem/kernel/posix.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace longhaul {

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

int Fd::release() { return std::exchange(fd_, -1); }

void Fd::reset() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

absl::Status ErrnoStatus(std::string_view what, int error) {
  const std::string message = fmt::format("{}: {}", what, strerror(error));
  switch (error) {
    case EPERM:
    case EACCES:
      return absl::PermissionDeniedError(message);
    case ENOENT:
    case ENODEV:
      return absl::FailedPreconditionError(message);
    case ETIMEDOUT:
      return absl::DeadlineExceededError(message);
    case EMFILE: {
      rlimit limit{};
      getrlimit(RLIMIT_NOFILE, &limit);
      return absl::ResourceExhaustedError(fmt::format(
          "{}: this process may hold {} at once; raise it with 'ulimit -n' before you start it",
          message, limit.rlim_cur));
    }
    default:
      return absl::InternalError(message);
  }
}

absl::Time MonotonicNow() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return absl::TimeFromTimespec(t);
}

absl::Status WriteFile(const std::string& path, std::string_view text) {
  const Fd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (fd.ok() && write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size())) {
    return absl::OkStatus();
  }
  return ErrnoStatus(fmt::format("write '{}' to {}", text, path), errno);
}

std::string ReadFileOrEmpty(const std::string& path) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char buffer[4096];
  ssize_t n = 0;
  while (fd.ok() && (n = read(fd.get(), buffer, sizeof buffer)) > 0) text.append(buffer, n);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

std::string OneBlank(std::string_view text) {
  std::string result;
  for (char c : text) {
    const bool blank = c == ' ' || c == '\t';
    if (!blank) result.push_back(c);
    if (blank && !result.empty() && result.back() != ' ') result.push_back(' ');
  }
  return result;
}

}  // namespace longhaul
