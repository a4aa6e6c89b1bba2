#include "experiments/run/cancel_signal.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace longhaul {
namespace {

sigset_t Signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  // A closed terminal ends a command as a request does; nohup has asked that it does not.
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

CancelSignal::CancelSignal() {
  const sigset_t set = Signals();
  sigprocmask(SIG_BLOCK, &set, nullptr);
  fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

CancelSignal::~CancelSignal() {
  // Taken, else the pending signal would strike as soon as it is unblocked.
  signalfd_siginfo taken;
  while (read(fd_, &taken, sizeof taken) > 0) {
  }
  close(fd_);
  const sigset_t set = Signals();
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

int CancelSignal::Take() const {
  signalfd_siginfo taken;
  return read(fd_, &taken, sizeof taken) == sizeof taken ? static_cast<int>(taken.ssi_signo) : 0;
}

}  // namespace longhaul
