#include "experiments/run/store_process.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace longhaul {

StoreProcess::~StoreProcess() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  if (keys_ >= 0) close(keys_);
}

absl::Status StoreProcess::Start(int port, const Spawn& spawn) {
  int ends[2];  // sockets: a pipe to a store that was killed would kill the lab
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::InternalError(fmt::format("make the store's socket: {}", strerror(errno)));
  }
  const absl::StatusOr<pid_t> pid =
      spawn({"/proc/self/exe", "worker", "--serve-store", fmt::format("{}", port), "-"},
            {{0, ends[0]}, {1, 2}, {2, 2}});
  close(ends[0]);
  keys_ = ends[1];
  if (!pid.ok()) return pid.status();
  pid_ = *pid;
  return absl::OkStatus();
}

void StoreProcess::Set(const std::string& key) {
  const std::string line = key + "\n";
  (void)send(keys_, line.data(), line.size(), MSG_NOSIGNAL);
}

void StoreProcess::EndIfStopped(absl::Duration now, absl::Duration deadline) {
  if (pid_ <= 0 || was_stopped_ > absl::ZeroDuration()) return;
  const absl::Duration stopped = stopped_.StoppedFor(pid_, now);
  if (stopped <= deadline) return;
  was_stopped_ = stopped;
  kill(pid_, SIGKILL);
}

absl::Status StoreProcess::Ended(pid_t pid) {
  if (pid != pid_) return absl::OkStatus();
  pid_ = 0;
  const std::string how =
      was_stopped_ > absl::ZeroDuration()
          ? fmt::format("was stopped for {:.1f} s", absl::ToDoubleSeconds(was_stopped_))
          : std::string("ended");
  return absl::UnavailableError("the process that serves the c10d store " + how +
                                ": nobody can say who is there any more");
}

}  // namespace longhaul
