#include "experiments/command/standard_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>

namespace longhaul {

void HoldStandardStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free descriptor is this one: those below it are open.
    if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) return;
  }
}

absl::Status FlushStandardOutput() {
  const bool failed_before = std::ferror(stdout) != 0;
  errno = 0;
  const bool failed_now = std::fflush(stdout) != 0;
  if (!failed_before && !failed_now) return absl::OkStatus();
  // Of an earlier write only the mark is left, not the reason.
  return absl::ResourceExhaustedError(fmt::format(
      "write to standard output: {}; what was printed is not complete",
      failed_now && errno != 0 ? std::strerror(errno) : "disk full, or its reader has gone"));
}

}  // namespace longhaul
