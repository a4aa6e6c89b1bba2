#include "experiments/run/command_watch.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <string>

#include "experiments/run/standstill.h"
#include "plugin/core/clock.h"

namespace longhaul {
namespace {

// nullopt: the command is gone; then the kernel ends the lab.
std::optional<char> StateAt(int stat_fd) {
  char text[512];
  const ssize_t n = pread(stat_fd, text, sizeof text, 0);
  if (n <= 0) return std::nullopt;
  return StateLetter(std::string(text, static_cast<size_t>(n)));
}

}  // namespace

CommandWatch::CommandWatch(int stat_fd, absl::Duration deadline)
    : stat_fd_(stat_fd), deadline_(deadline), stop_(eventfd(0, EFD_CLOEXEC)) {
  if (stat_fd_ < 0 || !stop_.ok()) return;
  sigset_t all, before;  // signals are for the main thread
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { Main(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

CommandWatch::~CommandWatch() {
  if (!thread_.joinable()) return;
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void CommandWatch::Main() {
  const absl::Duration interval = LookInterval(deadline_);
  const timespec wait = absl::ToTimespec(interval);
  StandstillWatch watch(interval);
  pollfd stop{stop_.get(), POLLIN, 0};
  while (ppoll(&stop, 1, &wait, nullptr) <= 0) {
    watch.Look(MonotonicClock().Now());
    const std::optional<char> state = StateAt(stat_fd_);
    watch.Saw(0, state && StandsStill(*state));
    const auto still = watch.Longest();
    // No word of it: the pipe may be full. The exit status says it.
    if (still && still->lasted >= deadline_) _exit(kExitCommandStoodStill);
  }
}

}  // namespace longhaul
