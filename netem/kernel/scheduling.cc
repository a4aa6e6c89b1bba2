#include "netem/kernel/scheduling.h"

#include <sched.h>
#include <signal.h>

#include <utility>

namespace longhaul {

std::string_view EnterRealTime(RealTime role) {
  const sched_param priority{.sched_priority = static_cast<int>(role)};
  const int inherit = role == RealTime::kProbe ? 0 : SCHED_RESET_ON_FORK;
  return sched_setscheduler(0, SCHED_FIFO | inherit, &priority) == 0 ? "SCHED_FIFO" : "SCHED_OTHER";
}

void LeaveRealTime() {
  const sched_param none{.sched_priority = 0};
  sched_setscheduler(0, SCHED_OTHER, &none);
}

std::thread ThreadWithoutSignals(std::function<void()> run) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(run));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace longhaul
