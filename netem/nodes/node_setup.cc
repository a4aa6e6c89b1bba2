#include "netem/nodes/node_setup.h"

#include <fmt/format.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/status_macros.h"
#include "netem/kernel/netlink.h"
#include "netem/kernel/posix.h"
#include "netem/nodes/addressing.h"

namespace longhaul {
namespace {

constexpr char kIpv4[] = "/proc/sys/net/ipv4/";

absl::Status WriteIfThere(const std::string& path, std::string_view text) {
  return access(path.c_str(), F_OK) == 0 ? WriteFile(path, text) : absl::OkStatus();
}

absl::Status ChooseCongestionControl(const std::string& name) {
  const std::string path = fmt::format("{}tcp_congestion_control", kIpv4);
  if (name.empty() || ReadFileOrEmpty(path) == name) return absl::OkStatus();
  const absl::Status s = WriteFile(path, name);
  if (s.ok()) return s;
  return absl::FailedPreconditionError(fmt::format(
      "congestion control '{}' cannot be chosen inside a namespace ({}); allowed here: {}. Add it "
      "to net.ipv4.tcp_allowed_congestion_control of the host, after 'modprobe tcp_{}'",
      name, std::string(s.message()),
      ReadFileOrEmpty(fmt::format("{}tcp_allowed_congestion_control", kIpv4)), name));
}

absl::Status SetTcp(const EmulatorOptions& options) {
  const std::pair<const char*, const char*> settings[] = {
      // The stock 4 to 6 MB cannot fill 200 Mbit/s at 200 ms: a queue of one bandwidth-delay
      // product needs two of them in flight, and half of rmem is overhead.
      {"tcp_rmem", "4096 131072 67108864"},
      {"tcp_wmem", "4096 65536 67108864"},
      // Else the slow-start threshold of one run decides the next.
      {"tcp_no_metrics_save", "1"},
      {"tcp_slow_start_after_idle", options.slow_start_after_idle ? "1" : "0"},
  };
  for (const auto& [name, text] : settings) {
    RETURN_IF_ERROR(WriteFile(std::string(kIpv4) + name, text));
  }
  return ChooseCongestionControl(options.congestion_control);
}

}  // namespace

absl::Status PrepareNamespace() {
  for (const char* which : {"all", "default"}) {
    auto s = WriteIfThere(fmt::format("/proc/sys/net/ipv6/conf/{}/disable_ipv6", which), "1");
    if (!s.ok()) return s;
    s = WriteFile(fmt::format("{}conf/{}/rp_filter", kIpv4, which), "0");
    if (!s.ok()) return s;
  }
  ASSIGN_OR_RETURN(auto netlink, Netlink::Open());
  return netlink.SetUp("lo");
}

bool KernelHasIpv6() { return access("/proc/sys/net/ipv6/conf", F_OK) == 0; }

absl::Status EnableIpv6(const std::vector<std::string>& devices) {
  ASSIGN_OR_RETURN(auto netlink, Netlink::Open());
  for (const std::string& device : devices) {
    const std::string folder = fmt::format("/proc/sys/net/ipv6/conf/{}/", device);
    const std::pair<const char*, const char*> settings[] = {
        {"accept_ra", "0"}, {"accept_dad", "0"}, {"addr_gen_mode", "1"}, {"disable_ipv6", "0"}};
    absl::Status s = device == "lo" ? absl::OkStatus() : netlink.SetQuiet(device);
    for (const auto& [name, value] : settings) {
      if (s.ok()) s = WriteFile(folder + name, value);
    }
    if (!s.ok()) return s;
  }
  return absl::OkStatus();
}

namespace {

absl::Status AddIpv6(const Netlink& netlink, int node, const std::string& gateway_mac) {
  auto s = netlink.AddAddress(kNodeDevice, NodeAddress6(node) + "/128");
  if (s.ok()) s = netlink.AddNeighbour(kNodeDevice, kGatewayAddress6, gateway_mac);
  if (s.ok()) s = netlink.AddRoute(kNodeNetwork6, kNodeDevice, kGatewayAddress6);
  if (s.ok()) s = netlink.DropMulticastRoute(kNodeDevice);
  return s.ok() ? netlink.AddUnreachable("::/0") : s;
}

// Whoever connects where no path leads, or none leads back, is to hear it at once and not to wait for
// an answer.
absl::Status CloseMissingPaths(const Netlink& netlink, const Topology& topology, int node,
                               IpVersions ip) {
  std::vector<bool> out(topology.nodes.size(), false), back = out;
  for (const PathSpec& path : topology.paths) {
    if (path.from == node) out[static_cast<size_t>(path.to)] = true;
    if (path.to == node) back[static_cast<size_t>(path.from)] = true;
  }
  for (int other = 0; other < static_cast<int>(out.size()); ++other) {
    const auto at = static_cast<size_t>(other);
    if (other == node || (out[at] && back[at])) continue;
    const auto close = [&](const std::string& address) {
      return out[at] ? netlink.RefuseTcp(address) : netlink.AddUnreachable(address);
    };
    absl::Status s = close(NodeAddress(other) + "/32");
    if (s.ok() && ip == IpVersions::kBoth) s = close(NodeAddress6(other) + "/128");
    if (!s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status PrepareNode(const Topology& topology, int node, const std::string& gateway_mac,
                         const EmulatorOptions& options) {
  RETURN_IF_ERROR(PrepareNamespace());
  RETURN_IF_ERROR(SetTcp(options));
  ASSIGN_OR_RETURN(auto netlink, Netlink::Open());
  const bool ipv6 = options.ip == IpVersions::kBoth;
  RETURN_IF_ERROR(ipv6 ? EnableIpv6({"lo", kNodeDevice}) : absl::OkStatus());
  RETURN_IF_ERROR(netlink.SetUp(kNodeDevice));
  RETURN_IF_ERROR(netlink.AddAddress(kNodeDevice, NodeAddress(node) + "/32"));
  RETURN_IF_ERROR(netlink.AddNeighbour(kNodeDevice, kGatewayAddress, gateway_mac));
  // No link carries one frame to many nodes: whoever tries is to hear it, not to wait for answers.
  for (const char* many : {"224.0.0.0/4", "255.255.255.255/32"}) {
    RETURN_IF_ERROR(netlink.AddUnreachable(many));
  }
  if (ipv6) {
    RETURN_IF_ERROR(AddIpv6(netlink, node, gateway_mac));
  }
  RETURN_IF_ERROR(CloseMissingPaths(netlink, topology, node, options.ip));
  return netlink.AddRoute("0.0.0.0/0", kNodeDevice, kGatewayAddress);
}

namespace {

absl::StatusOr<uint32_t> Ethtool(const std::string& device, ethtool_value value) {
  const Fd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  strncpy(request.ifr_name, device.c_str(), IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(&value);
  if (ioctl(fd.get(), SIOCETHTOOL, &request) == 0) return value.data;
  return ErrnoStatus(fmt::format("ethtool request {:#x} on {}", value.cmd, device), errno);
}

}  // namespace

absl::Status OffloadsOff(const std::string& device) {
  for (uint32_t command : {ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO}) {
    if (auto set = Ethtool(device, {command, 0}); !set.ok()) return set.status();
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> GetOffload(const std::string& device, uint32_t ethtool_command) {
  ASSIGN_OR_RETURN(auto value, Ethtool(device, {ethtool_command, 0}));
  return value != 0;
}

}  // namespace longhaul
