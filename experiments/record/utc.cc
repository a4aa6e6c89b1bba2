#include "experiments/record/utc.h"

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace longhaul {

std::string UtcNow() {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone());
}

}  // namespace longhaul
