#include "netem/machine/host_facts.h"

#include <fmt/format.h>
#include <linux/ethtool.h>
#include <sys/utsname.h>

#include <cstdlib>

#include "netem/kernel/netns.h"
#include "netem/kernel/posix.h"
#include "netem/nodes/node_setup.h"

namespace longhaul {
namespace {

std::string OnOff(uint32_t command) {
  auto value = GetOffload(kNodeDevice, command);
  if (!value.ok()) return "unknown";
  return *value ? "on" : "off";
}

}  // namespace

absl::StatusOr<HostFacts> ReadHostFacts(const Emulator& emulator) {
  HostFacts facts{};
  facts.emulator = ToString(emulator.kind());
  facts.scheduling = emulator.scheduling();
  utsname name;
  if (uname(&name) == 0) facts.kernel_release = name.release;
  facts.clock_source =
      ReadFileOrEmpty("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  facts.mtu = emulator.topology().mtu;
  auto s = InNamespace(emulator.node_netns_fd(0), [&] {
    const auto tcp = [](const char* setting) {
      return ReadFileOrEmpty(fmt::format("/proc/sys/net/ipv4/tcp_{}", setting));
    };
    facts.congestion_control = tcp("congestion_control");
    facts.slow_start_after_idle = tcp("slow_start_after_idle") == "1";
    facts.tcp_rmem = OneBlank(tcp("rmem"));
    facts.tcp_wmem = OneBlank(tcp("wmem"));
    facts.offloads = fmt::format("tso {}, gso {}, gro {}", OnOff(ETHTOOL_GTSO), OnOff(ETHTOOL_GGSO),
                                 OnOff(ETHTOOL_GGRO));
    if (facts.congestion_control.empty()) {
      return absl::FailedPreconditionError("host facts: /proc/sys/net/ipv4 cannot be read");
    }
    return absl::OkStatus();
  });
  if (!s.ok()) return s;
  return facts;
}

absl::StatusOr<int64_t> InterfaceReceivedBytes(const Emulator& emulator, int node) {
  int64_t bytes = -1;
  auto s = InNamespace(emulator.node_netns_fd(node), [&] {
    // "  net0: 123 ...": received bytes first.
    const std::string table = ReadFileOrEmpty("/proc/thread-self/net/dev");
    const size_t line = table.find(std::string(kNodeDevice) + ":");
    if (line != std::string::npos) {
      bytes = std::atoll(table.c_str() + line + std::string(kNodeDevice).size() + 1);
    }
    return absl::OkStatus();
  });
  if (!s.ok()) return s;
  if (bytes < 0) {
    return absl::FailedPreconditionError(
        fmt::format("/proc/net/dev of node {} has no {}", node, kNodeDevice));
  }
  return bytes;
}

std::vector<std::pair<std::string, std::string>> Describe(const HostFacts& facts) {
  return {{"emulator", facts.emulator},
          {"scheduling", facts.scheduling},
          {"kernel", facts.kernel_release},
          {"clock source", facts.clock_source},
          {"congestion control", facts.congestion_control},
          {"slow start after idle", facts.slow_start_after_idle ? "on" : "off"},
          {"tcp_rmem", facts.tcp_rmem},
          {"tcp_wmem", facts.tcp_wmem},
          {"mtu", fmt::format("{}", facts.mtu)},
          {"offloads", facts.offloads}};
}

}  // namespace longhaul
