#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace longhaul {

// How long this process' threads, those that still are, have been ready to run and waited for a
// core. nullopt: a kernel that does not tell (no /proc/self/task/*/schedstat).
std::optional<absl::Duration> WaitedForCores();

// Of all cores, since boot: what the host of a virtual machine took, and all there was; ticks.
struct StolenTicks {
  int64_t stolen = 0, all = 0;
};
// `stat`: /proc/stat. nullopt: not of its form.
std::optional<StolenTicks> StolenIn(const std::string& stat);
std::optional<StolenTicks> Stolen();

}  // namespace longhaul
