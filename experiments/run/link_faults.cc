#include "experiments/run/link_faults.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/status_macros.h"

namespace longhaul {
namespace {

std::vector<std::pair<int, int>> PathsOf(const FaultPlace& place) {
  const std::pair there(static_cast<int>(place.from), static_cast<int>(place.to));
  if (!place.both_ways) return {there};
  return {there, {there.second, there.first}};
}

bool Strikes(const Fault& fault, const std::pair<int, int>& path) {
  const auto paths = PathsOf(fault.where);
  return std::find(paths.begin(), paths.end(), path) != paths.end();
}

}  // namespace

LinkFaults::LinkFaults(std::vector<Fault> drawn, Emulator& emulator)
    : drawn_(std::move(drawn)), emulator_(emulator), nominal_(emulator.topology()) {}

absl::Status LinkFaults::Apply(size_t fault) {
  for (const auto& path : PathsOf(drawn_[fault].where)) {
    const PathSpec* nominal = FindPath(nominal_, path.first, path.second);
    if (nominal == nullptr) continue;  // MeshNamed has them all
    PathSpec now = *nominal;
    Carrier carrier = Carrier::kUp;
    for (const auto& [active, end] : active_) {
      const Fault& f = drawn_[active];
      if (!Strikes(f, path)) continue;
      if (f.what == FaultKind::kLinkDown) carrier = Carrier::kDown;
      if (f.what == FaultKind::kLinkDelay) now.delay = absl::Milliseconds(f.delay_ms);
      if (f.what != FaultKind::kLinkRate) continue;
      now.rate = Mbit(f.rate_mbit);
      now.rate_trace = nullptr;
    }
    absl::Status s = emulator_.ChangePath(now);
    if (s.ok()) s = emulator_.SetCarrier(path.first, path.second, carrier);
    if (!s.ok()) {
      return absl::Status(s.code(),
                          fmt::format("{}: {}", Describe(drawn_[fault]), std::string(s.message())));
    }
  }
  return absl::OkStatus();
}

absl::Status LinkFaults::Strike(size_t fault, absl::Duration now) {
  if (!struck_.insert(fault).second) return absl::OkStatus();
  const double seconds = drawn_[fault].for_s;
  active_[fault] = seconds > 0 ? now + absl::Seconds(seconds) : absl::InfiniteDuration();
  return Apply(fault);
}

absl::Status LinkFaults::Mend(size_t fault) {
  return active_.erase(fault) > 0 ? Apply(fault) : absl::OkStatus();
}

absl::Duration LinkFaults::next_end() const {
  absl::Duration next = absl::InfiniteDuration();
  for (const auto& [fault, end] : active_) next = std::min(next, end);
  return next;
}

absl::Status LinkFaults::MendDue(absl::Duration now) {
  while (next_end() <= now) {
    const auto due = std::find_if(active_.begin(), active_.end(),
                                  [now](const auto& fault) { return fault.second <= now; });
    RETURN_IF_ERROR(Mend(due->first));
  }
  return absl::OkStatus();
}

absl::Status LinkFaults::MendAll() {
  while (!active_.empty()) {
    RETURN_IF_ERROR(Mend(active_.begin()->first));
  }
  return absl::OkStatus();
}

}  // namespace longhaul
