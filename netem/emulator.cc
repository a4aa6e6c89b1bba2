#include "netem/emulator.h"

#include <fmt/format.h>
#include <linux/pkt_sched.h>
#include <unistd.h>

#include <string>

#include "netem/addressing.h"
#include "netem/netem_emulator.h"
#include "netem/netlink.h"
#include "netem/netns.h"
#include "netem/tap_emulator.h"
#include "netem/traffic_control.h"

namespace longhaul {

std::string_view ToString(EmulatorKind kind) {
  return kind == EmulatorKind::kNetem ? "netem" : "tap";
}

absl::StatusOr<std::unique_ptr<Emulator>> BuildEmulator(EmulatorKind kind, const Topology& topology,
                                                        const EmulatorOptions& options) {
  if (auto s = Validate(topology); !s.ok()) return s;
  return kind == EmulatorKind::kNetem ? BuildNetemEmulator(topology, options)
                                      : BuildTapEmulator(topology, options);
}

absl::StatusOr<EmulatorKind> ProbeEmulatorKind() {
  // In a namespace of its own, which takes the scratch device with it.
  auto scratch = NetNamespace::Create(fmt::format("@probe-{}", getpid()));
  if (!scratch.ok()) return scratch.status();
  absl::Status tried;
  auto s = InNamespace(scratch->fd(), [&] {
    auto netlink = Netlink::Open();
    if (!netlink.ok()) return netlink.status();
    auto made =
        netlink->CreateVeth({scratch->fd(), "probe0", ToString(MacOf(MacKind::kNode, 0))},
                            {scratch->fd(), "probe1", ToString(MacOf(MacKind::kNode, 1))}, 1500);
    if (!made.ok()) return made;
    auto index = netlink->DeviceIndex("probe0");
    if (!index.ok()) return index.status();
    tried = ReplaceNetem(*netlink, *index, TC_H_ROOT, LeafHandle(0),
                         {.rate = Mbit(100), .delay_ns = 1, .limit_packets = 100});
    return absl::OkStatus();
  });
  if (!s.ok()) return s;
  if (tried.ok()) return EmulatorKind::kNetem;
  if (absl::IsNotFound(tried)) return EmulatorKind::kTap;
  return absl::Status(tried.code(), fmt::format("probing for netem on a scratch device: {}",
                                                std::string(tried.message())));
}

}  // namespace longhaul
