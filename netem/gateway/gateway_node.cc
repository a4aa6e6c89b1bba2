#include "netem/gateway/gateway_node.h"

#include "netem/emulators/tap_device.h"
#include "netem/gateway/gateway.h"
#include "netem/gateway/relay.h"
#include "netem/kernel/netlink.h"
#include "netem/nodes/addressing.h"
#include "netem/nodes/node_setup.h"

namespace longhaul {
namespace {

constexpr int kQueuePackets = 1000;
constexpr int kLastResort = 1000;  // a metric: after the route that the device gives

}  // namespace

absl::StatusOr<Fd> BuildGatewayDevice(int node) {
  auto device = OpenTap(kGatewayDevice, TapFrames::kPlain);
  if (!device.ok()) return device.status();
  auto netlink = Netlink::Open();
  if (!netlink.ok()) return netlink.status();
  const std::string relay = ToString(MacOf(MacKind::kRelay, node));
  absl::Status s = netlink->Configure(kGatewayDevice, ToString(MacOf(MacKind::kGateway, node)),
                                      kGatewayMtu, kQueuePackets);
  if (s.ok()) s = netlink->SetUp(kGatewayDevice);
  if (s.ok()) s = netlink->AddRoute(kNodeNetwork, kNodeDevice, kGatewayAddress);
  if (s.ok()) s = netlink->AddUnreachable(kNodeNetwork, kLastResort);
  if (s.ok()) s = netlink->AddUnreachable(kRelayNetwork);
  for (const char* address : {kHostAddress, kNameServerAddress}) {
    if (s.ok()) s = netlink->AddNeighbour(kGatewayDevice, address, relay);
    if (s.ok()) s = netlink->AddRoute(std::string(address) + "/32", kGatewayDevice, "");
  }
  if (s.ok()) s = netlink->ReplaceDefaultRoute(kGatewayDevice, kHostAddress, NodeAddress(node));
  if (!s.ok()) return s;
  return device;
}

}  // namespace longhaul
