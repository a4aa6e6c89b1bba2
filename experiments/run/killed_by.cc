#include "experiments/run/killed_by.h"

#include <csignal>
#include <cstring>

#include <fmt/format.h>

namespace longhaul {

std::string KilledBy(int signal) {
  return fmt::format("killed by signal {} ({}){}", signal, strsignal(signal),
                     signal == SIGKILL
                         ? " from outside, as the kernel does when memory runs out (dmesg names "
                           "the process then)"
                         : "");
}

}  // namespace longhaul
