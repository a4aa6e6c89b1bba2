#pragma once

#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "netem/emulator.h"

namespace longhaul {

using Pair = std::pair<int, int>;

// Takes what it is told; nothing of it moves a frame.
class ToldEmulator : public Emulator {
 public:
  explicit ToldEmulator(Topology topology) : topology_(std::move(topology)) {}

  EmulatorKind kind() const override { return EmulatorKind::kTap; }
  const Topology& topology() const override { return topology_; }
  const EmulatorOptions& options() const override { return options_; }
  absl::Status ChangePath(const PathSpec& path) override {
    auto changed = WithPath(topology_, path);
    if (!changed.ok()) return changed.status();
    topology_ = *std::move(changed);
    return absl::OkStatus();
  }
  // An outage that begins twice is an error of whoever tells it.
  absl::Status SetCarrier(int from, int to, Carrier carrier) override {
    EXPECT_NE(down[Pair(from, to)], carrier == Carrier::kDown) << "told twice";
    down[Pair(from, to)] = carrier == Carrier::kDown;
    return absl::OkStatus();
  }
  int node_netns_fd(int /*node*/) const override { return -1; }
  absl::StatusOr<PathCounters> counters(int /*from*/, int /*to*/) const override {
    return PathCounters{};
  }
  absl::StatusOr<std::vector<LineCounters>> line_counters() const override {
    return std::vector<LineCounters>{};
  }
  absl::StatusOr<int64_t> unroutable_drops() const override { return 0; }
  std::string_view scheduling() const override { return ""; }
  absl::Duration cpu_time() const override { return absl::ZeroDuration(); }
  Lateness lateness() const override { return {}; }
  absl::Status health() const override { return absl::OkStatus(); }

  std::map<Pair, bool> down;

 private:
  Topology topology_;
  EmulatorOptions options_;
};

}  // namespace longhaul
