#include "experiments/run/standstill.h"

#include <algorithm>
#include <fstream>
#include <string>

#include <fmt/format.h>

namespace longhaul {
namespace {

// proc(5): the state follows the name, which may have parentheses of its own.
bool IsStopped(pid_t pid) {
  std::string stat;
  std::getline(std::ifstream(fmt::format("/proc/{}/stat", pid)), stat);
  const size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.size() > name_end + 2 &&
         (stat[name_end + 2] == 'T' || stat[name_end + 2] == 't');
}

}  // namespace

absl::Duration LookInterval(absl::Duration deadline) {
  return std::clamp(deadline / 8, absl::Milliseconds(50), absl::Seconds(1));
}

void StandstillWatch::Look(absl::Duration now) {
  const absl::Duration missed = now_ ? now - *now_ - interval_ : absl::ZeroDuration();
  if (missed > interval_) {
    for (auto& [who, still] : still_) still.since += missed;
  }
  std::erase_if(still_, [&](const auto& entry) { return entry.second.look != look_; });
  now_ = now;
  ++look_;
}

void StandstillWatch::Saw(int64_t who, bool is_still) {
  if (!is_still) {
    still_.erase(who);
    return;
  }
  still_.try_emplace(who, Still{*now_, look_}).first->second.look = look_;
}

std::optional<StandstillWatch::Standstill> StandstillWatch::Longest() const {
  std::optional<Standstill> longest;
  for (const auto& [who, still] : still_) {
    if (still.look != look_) continue;
    const absl::Duration lasted = *now_ - still.since;
    if (!longest || lasted > longest->lasted) longest = Standstill{who, lasted};
  }
  return longest;
}

absl::Duration StoppedProcesses::StoppedFor(pid_t pid, absl::Duration now) {
  if (!IsStopped(pid)) {
    since_.erase(pid);
    return absl::ZeroDuration();
  }
  return now - since_.emplace(pid, now).first->second;
}

}  // namespace longhaul
