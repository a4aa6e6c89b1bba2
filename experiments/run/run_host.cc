#include "experiments/run/run_host.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace longhaul {
namespace {

std::string CpuModel() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

}  // namespace

RunHost ReadRunHost() {
  utsname names{};
  uname(&names);
  double load[1] = {0};
  getloadavg(load, 1);
  return {.host = names.nodename,
          .kernel = names.release,
          .cpu = CpuModel(),
          .cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)),
          .load_1min = load[0],
          .git_revision = LONGHAUL_GIT_REVISION};
}

}  // namespace longhaul
