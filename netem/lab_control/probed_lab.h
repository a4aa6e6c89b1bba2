#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "netem/emulator.h"

namespace longhaul {

// An emulator as a probe sees it, which takes seconds while others change it: its topology stays
// what it was when the probe began, and each question holds the owner's lock for itself alone.
class ProbedLab final : public Emulator {
  template <typename Question>
  auto Locked(Question question) const {
    const std::lock_guard lock(mu_);
    return question();
  }

 public:
  // The caller holds `mu` just now; `live` and `mu` outlive this.
  ProbedLab(const Emulator& live, std::mutex& mu)
      : live_(live), mu_(mu), topology_(live.topology()) {}

  EmulatorKind kind() const override { return live_.kind(); }
  const Topology& topology() const override { return topology_; }
  const EmulatorOptions& options() const override { return live_.options(); }
  int node_netns_fd(int node) const override { return live_.node_netns_fd(node); }
  std::string_view scheduling() const override { return live_.scheduling(); }

  absl::StatusOr<PathCounters> counters(int from, int to) const override {
    return Locked([&] { return live_.counters(from, to); });
  }
  absl::StatusOr<std::vector<LineCounters>> line_counters() const override {
    return Locked([&] { return live_.line_counters(); });
  }
  absl::StatusOr<int64_t> unroutable_drops() const override {
    return Locked([&] { return live_.unroutable_drops(); });
  }
  absl::Duration cpu_time() const override {
    return Locked([&] { return live_.cpu_time(); });
  }
  Lateness lateness() const override {
    return Locked([&] { return live_.lateness(); });
  }
  absl::Status health() const override {
    return Locked([&] { return live_.health(); });
  }

  absl::Status ChangePath(const PathSpec& /*path*/) override { return NotOurs(); }
  absl::Status SetCarrier(int /*from*/, int /*to*/, Carrier /*carrier*/) override {
    return NotOurs();
  }

 private:
  static absl::Status NotOurs() {
    return absl::FailedPreconditionError("a probe changes nothing of the lab");
  }

  const Emulator& live_;
  std::mutex& mu_;
  const Topology topology_;
};

}  // namespace longhaul
