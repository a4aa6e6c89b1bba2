#include "netem/kernel/scheduling.h"

#include <sched.h>

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

}  // namespace longhaul
