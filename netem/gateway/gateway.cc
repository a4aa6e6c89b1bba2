#include "netem/gateway/gateway.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "netem/emulators/tap_device.h"
#include "netem/gateway/relay.h"
#include "netem/kernel/netlink.h"
#include "netem/kernel/netns.h"
#include "netem/kernel/posix.h"
#include "netem/lab_control/lab_messages.h"
#include "netem/nodes/addressing.h"
#include "netem/nodes/node_setup.h"

namespace longhaul {
namespace {

constexpr int kQueuePackets = 1000;
constexpr int kLastResort = 1000;  // a metric: after the route that the device gives

// Inside a node's network namespace: gw0, a TAP device that lives as long as the descriptor, which
// is non-blocking. Routes: what may be a node's goes through net0 or nowhere, also while net0 is
// down and for who asks for gw0 by name; all else leaves through gw0, from the node's own address.
absl::StatusOr<Fd> BuildGatewayDevice(int node) {
  ASSIGN_OR_RETURN(auto device, OpenTap(kGatewayDevice, TapFrames::kPlain));
  ASSIGN_OR_RETURN(auto netlink, Netlink::Open());
  const std::string relay = ToString(MacOf(MacKind::kRelay, node));
  absl::Status s = netlink.Configure(kGatewayDevice, ToString(MacOf(MacKind::kGateway, node)),
                                     kGatewayMtu, kQueuePackets);
  if (s.ok()) s = netlink.SetUp(kGatewayDevice);
  if (s.ok()) s = netlink.AddRoute(kNodeNetwork, kNodeDevice, kGatewayAddress);
  if (s.ok()) s = netlink.AddUnreachable(kNodeNetwork, kLastResort);
  if (s.ok()) s = netlink.AddUnreachable(kRelayNetwork);
  for (const char* address : {kHostAddress, kNameServerAddress}) {
    if (s.ok()) s = netlink.AddNeighbour(kGatewayDevice, address, relay);
    if (s.ok()) s = netlink.AddRoute(std::string(address) + "/32", kGatewayDevice, "");
  }
  if (s.ok()) s = netlink.ReplaceDefaultRoute(kGatewayDevice, kHostAddress, NodeAddress(node));
  if (!s.ok()) return s;
  return device;
}

constexpr absl::Duration kRelayPatience = absl::Seconds(10);

bool IsIpv4(const std::string& text) {
  in_addr address{};
  return inet_pton(AF_INET, text.c_str(), &address) == 1;
}

// 0: it is none.
int PortOf(std::string_view text) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && port > 0 && port < 65536 ? port : 0;
}

}  // namespace

absl::StatusOr<PortForward> ParseForward(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream words(text);
  for (std::string part; std::getline(words, part, ':');) parts.push_back(part);
  const absl::Status wrong = absl::InvalidArgumentError(fmt::format(
      "--forward {}: want [ADDRESS:]HOST_PORT:NODE:PORT, as in 8080:a:80 or 0.0.0.0:8080:a:80",
      text));
  if (parts.size() == 3) parts.insert(parts.begin(), "127.0.0.1");
  if (parts.size() != 4 || text.ends_with(':')) return wrong;
  PortForward forward{parts[0], PortOf(parts[1]), parts[2], PortOf(parts[3])};
  if (!IsIpv4(forward.host_address) || forward.host_port == 0 || forward.node.empty() ||
      forward.node_port == 0) {
    return wrong;
  }
  return forward;
}

std::string ToString(const PortForward& forward) {
  return fmt::format("{}:{} > {}:{}", forward.host_address, forward.host_port, forward.node,
                     forward.node_port);
}

HostResolver ParseResolver(std::string_view resolv_conf) {
  HostResolver resolver;
  std::istringstream lines{std::string(resolv_conf)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string key, value;
    words >> key >> value;
    if (key == "nameserver" && resolver.server.empty() && IsIpv4(value)) resolver.server = value;
    if (key == "search" || key == "domain" || key == "options") resolver.rules += line + "\n";
  }
  return resolver;
}

absl::Status CheckGateway(const GatewaySpec& spec, const Topology& topology) {
  for (const NodeSpec& node : topology.nodes) {
    if (InSmallLetters(node.name) != kHostName) continue;
    return absl::InvalidArgumentError(
        fmt::format("node '{}': in a lab with --gateway {} is the host", node.name, kHostName));
  }
  std::set<std::pair<std::string, int>> taken;
  for (const PortForward& forward : spec.forwards) {
    const bool known = std::any_of(topology.nodes.begin(), topology.nodes.end(),
                                   [&](const NodeSpec& node) { return node.name == forward.node; });
    if (!known) {
      return absl::InvalidArgumentError(
          fmt::format("--forward {}: no node '{}'", ToString(forward), forward.node));
    }
    if (!taken.insert({forward.host_address, forward.host_port}).second) {
      return absl::InvalidArgumentError(
          fmt::format("--forward {}: the host's port is given twice", ToString(forward)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Gateway>> Gateway::Build(GatewaySpec spec, const Emulator& emulator,
                                                        Fd relay) {
  const Topology& topology = emulator.topology();
  for (int node = 0; node < static_cast<int>(topology.nodes.size()); ++node) {
    Fd device;
    auto s = InNamespace(emulator.node_netns_fd(node), [&] {
      auto built = BuildGatewayDevice(node);
      if (built.ok()) device = *std::move(built);
      return built.status();
    });
    if (s.ok()) s = SendLine(relay, {{"node", node}}, {device.get()});
    if (s.ok()) {
      auto answer = ReceiveLine(relay, kRelayPatience);
      s = answer.ok() ? StatusOfAnswer(answer->message) : answer.status();
    }
    if (!s.ok()) {
      return absl::Status(s.code(), fmt::format("gateway of node {}: {}", topology.nodes[node].name,
                                                std::string(s.message())));
    }
  }
  return std::unique_ptr<Gateway>(new Gateway(std::move(spec), std::move(relay)));
}

absl::Status Gateway::health() const {
  pollfd ended{relay_.get(), POLLIN, 0};  // it says nothing unasked
  if (poll(&ended, 1, 0) == 0) return absl::OkStatus();
  return absl::UnavailableError(
      "gateway: its relay has ended, and nodes reach one another alone; take the lab down and up "
      "again");
}

DeviceCounters Gateway::counters(const Emulator& emulator, int node) const {
  DeviceCounters counters;
  const absl::Status entered = InNamespace(emulator.node_netns_fd(node), [&] {
    auto read = ReadDeviceCounters(kGatewayDevice);
    if (read.ok()) counters = *read;
    return absl::OkStatus();
  });
  return entered.ok() ? counters : DeviceCounters{};
}

}  // namespace longhaul
