#include "netem/emulators/build_emulator.h"

#include <fmt/format.h>
#include <time.h>

#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "netem/emulators/mtu_frames.h"
#include "netem/emulators/tap_device.h"
#include "netem/emulators/tap_loop.h"
#include "netem/kernel/netlink.h"
#include "netem/kernel/netns.h"
#include "netem/nodes/addressing.h"
#include "netem/nodes/node_setup.h"

namespace longhaul {
namespace {

// Length of the ring between the kernel and us: a whole burst of a node must fit.
constexpr int kRingPackets = 5000;

TapFrames FramesOf(const Topology& topology, int node) {
  return NeedsMtuFrames(topology, node) ? TapFrames::kMtu : TapFrames::kTso;
}

class TapEmulator : public Emulator {
 public:
  TapEmulator(Topology topology, EmulatorOptions options, std::vector<NetNamespace> nodes,
              std::unique_ptr<TapLoop> loop)
      : topology_(std::move(topology)),
        options_(std::move(options)),
        nodes_(std::move(nodes)),
        loop_(std::move(loop)) {}

  EmulatorKind kind() const override { return EmulatorKind::kTap; }
  const Topology& topology() const override { return topology_; }
  const EmulatorOptions& options() const override { return options_; }
  int node_netns_fd(int node) const override { return nodes_[node].fd(); }
  std::string_view scheduling() const override { return loop_->scheduling(); }

  absl::StatusOr<PathCounters> counters(int from, int to) const override {
    absl::StatusOr<PathCounters> result = NoPath(from, to);
    RETURN_IF_ERROR(loop_->Call([&](TapNetwork& network) {
      if (const PathCounters* counters = network.counters(from, to)) result = *counters;
    }));
    return result;
  }

  absl::Status ChangePath(const PathSpec& path) override {
    ASSIGN_OR_RETURN(auto changed, WithPath(topology_, path));
    RETURN_IF_ERROR(loop_->Call([&](TapNetwork& network) { network.ChangePath(changed, path); }));
    topology_ = std::move(changed);
    return SetTapFrames(loop_->tap_fd(path.from), FramesOf(topology_, path.from));
  }

  absl::Status SetCarrier(int from, int to, Carrier carrier) override {
    if (FindPath(topology_, from, to) == nullptr) return NoPath(from, to);
    return loop_->Call([&](TapNetwork& network) { network.SetCarrier(from, to, carrier); });
  }

  absl::StatusOr<std::vector<LineCounters>> line_counters() const override {
    std::vector<LineCounters> lines;
    RETURN_IF_ERROR(loop_->Call([&](TapNetwork& network) { lines = network.line_counters(); }));
    NameLines(topology_, lines);
    return lines;
  }

  absl::StatusOr<int64_t> unroutable_drops() const override {
    int64_t drops = 0;
    RETURN_IF_ERROR(loop_->Call([&](TapNetwork& network) { drops = network.unroutable_drops(); }));
    return drops;
  }

  absl::Duration cpu_time() const override { return loop_->cpu_time(); }
  Lateness lateness() const override { return loop_->lateness(); }
  absl::Status health() const override { return loop_->health(); }

 private:
  Topology topology_;
  EmulatorOptions options_;
  std::vector<NetNamespace> nodes_;
  std::unique_ptr<TapLoop> loop_;  // ends before the namespaces go
};

// Inside the node's namespace: its device and settings.
absl::StatusOr<Fd> BuildNode(const Topology& topology, int node, const EmulatorOptions& options) {
  ASSIGN_OR_RETURN(auto tap, OpenTap(kNodeDevice, FramesOf(topology, node)));
  ASSIGN_OR_RETURN(auto netlink, Netlink::Open());
  auto s = netlink.Configure(kNodeDevice, ToString(MacOf(MacKind::kNode, node)), topology.mtu,
                             kRingPackets);
  if (s.ok()) s = PrepareNode(topology, node, ToString(MacOf(MacKind::kLan, node)), options);
  if (!s.ok()) return s;
  return tap;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Emulator>> BuildTapEmulator(const Topology& topology,
                                                           const EmulatorOptions& options) {
  std::vector<NetNamespace> nodes;
  std::vector<Fd> taps;
  std::vector<std::string> names;
  for (size_t i = 0; i < topology.nodes.size(); ++i) {
    ASSIGN_OR_RETURN(auto node, NetNamespace::Create(topology.nodes[i].name));
    Fd tap;
    auto s = InNamespace(node.fd(), [&] {
      auto built = BuildNode(topology, static_cast<int>(i), options);
      if (built.ok()) tap = *std::move(built);
      return built.status();
    });
    if (!s.ok()) {
      return absl::Status(
          s.code(), fmt::format("node {}: {}", topology.nodes[i].name, std::string(s.message())));
    }
    nodes.push_back(std::move(node));
    taps.push_back(std::move(tap));
    names.push_back(topology.nodes[i].name);
  }
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t now_ns = now.tv_sec * 1'000'000'000 + now.tv_nsec;  // rate traces begin here
  ASSIGN_OR_RETURN(auto loop,
                   TapLoop::Start(std::move(taps), std::move(names),
                                  TapNetwork(topology, options.seed, now_ns), topology.mtu));
  return std::make_unique<TapEmulator>(topology, options, std::move(nodes), std::move(loop));
}

}  // namespace longhaul
