#include <cstdio>

#include "experiments/command/command.h"
#include "experiments/run/cancel_signal.h"

namespace longhaul {

int Fail(const absl::Status& status) {
  if (status.ok()) return 0;
  const std::string message(status.message());
  std::fprintf(stderr, "longhaul: %s\n", message.c_str());
  return absl::IsCancelled(status) ? kExitCancelled : 1;
}

}  // namespace longhaul
