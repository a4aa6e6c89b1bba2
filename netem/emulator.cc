#include "netem/emulator.h"

#include <fmt/format.h>
#include <linux/pkt_sched.h>
#include <unistd.h>

#include <set>
#include <string>

#include "base/status_macros.h"
#include "netem/emulators/build_emulator.h"
#include "netem/emulators/traffic_control.h"
#include "netem/kernel/netlink.h"
#include "netem/kernel/netns.h"
#include "netem/nodes/addressing.h"
#include "netem/nodes/device_counters.h"
#include "netem/nodes/node_setup.h"
#include "netem/topology/access_lines.h"

namespace longhaul {

std::string_view ToString(EmulatorKind kind) {
  return kind == EmulatorKind::kNetem ? "netem" : "tap";
}

absl::StatusOr<std::unique_ptr<Emulator>> BuildEmulator(EmulatorKind kind, const Topology& topology,
                                                        const EmulatorOptions& options) {
  RETURN_IF_ERROR(Validate(topology));
  return kind == EmulatorKind::kNetem ? BuildNetemEmulator(topology, options)
                                      : BuildTapEmulator(topology, options);
}

void NameLines(const Topology& topology, std::vector<LineCounters>& lines) {
  size_t next = 0;
  std::set<int> named;
  for (int node = 0; node < static_cast<int>(topology.nodes.size()); ++node) {
    const auto line = LineOf(topology, node);
    if (!line || !named.insert(*line).second) continue;
    const NodeSpec& spec = topology.nodes[static_cast<size_t>(node)];
    const std::string& name =
        spec.site ? topology.sites[static_cast<size_t>(*spec.site)].name : spec.name;
    for (int side = 0; side < 2 && next < lines.size(); ++side) lines[next++].name = name;
  }
}

absl::StatusOr<int64_t> UnreadDrops(const Emulator& emulator, int node) {
  int64_t drops = 0;
  RETURN_IF_ERROR(InNamespace(emulator.node_netns_fd(node), [&] {
    const auto counters = ReadDeviceCounters(kNodeDevice);
    if (counters.ok()) drops = counters->sent_drops;
    return counters.status();
  }));
  return drops;
}

absl::Status KernelLacksNetem() {
  return absl::InvalidArgumentError(
      "the netem emulator was asked for, but this kernel has no sch_netem or no sch_tbf; load "
      "them (modprobe sch_netem sch_tbf), or ask for the tap emulator");
}

absl::StatusOr<EmulatorKind> ChooseEmulatorKind(const std::optional<EmulatorKind>& forced,
                                                const Topology& topology) {
  if (forced == EmulatorKind::kNetem) {
    ASSIGN_OR_RETURN(const EmulatorKind can, ProbeEmulatorKind());
    if (can != EmulatorKind::kNetem) {
      return KernelLacksNetem();
    }
  }
  if (forced) return *forced;
  return WhyTapAlone(topology).empty() ? ProbeEmulatorKind() : EmulatorKind::kTap;
}

absl::StatusOr<EmulatorKind> ProbeEmulatorKind() {
  // In a namespace of its own, which takes the scratch device with it.
  ASSIGN_OR_RETURN(auto scratch, NetNamespace::Create(fmt::format("@probe-{}", getpid())));
  absl::Status tried;
  auto s = InNamespace(scratch.fd(), [&] {
    ASSIGN_OR_RETURN(auto netlink, Netlink::Open());
    auto made =
        netlink.CreateVeth({scratch.fd(), "probe0", ToString(MacOf(MacKind::kNode, 0))},
                           {scratch.fd(), "probe1", ToString(MacOf(MacKind::kNode, 1))}, 1500);
    if (!made.ok()) return made;
    ASSIGN_OR_RETURN(auto index, netlink.DeviceIndex("probe0"));
    // A path's leaf has both (path_leaf.h).
    tried = PutTokenBucket(netlink, index, TC_H_ROOT, LeafHandle(0), 12'500'000, 10'000);
    if (tried.ok()) {
      tried = ReplaceNetem(netlink, index, TC_H_MAKE(LeafHandle(0), 1), LeafHandle(1),
                           {.rate = Mbit(100), .delay_ns = 1, .limit_packets = 100});
    }
    return absl::OkStatus();
  });
  if (!s.ok()) return s;
  if (tried.ok()) return EmulatorKind::kNetem;
  if (absl::IsNotFound(tried) || absl::IsFailedPrecondition(tried)) return EmulatorKind::kTap;
  return absl::Status(tried.code(), fmt::format("probing for netem on a scratch device: {}",
                                                std::string(tried.message())));
}

}  // namespace longhaul
