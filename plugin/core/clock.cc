#include "plugin/core/clock.h"

#include <chrono>

namespace longhaul {
namespace {

class SteadyClock final : public Clock {
 public:
  absl::Duration Now() const override {
    return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
  }
};

}  // namespace

const Clock& MonotonicClock() {
  static const SteadyClock* const clock = new SteadyClock;
  return *clock;
}

}  // namespace longhaul
