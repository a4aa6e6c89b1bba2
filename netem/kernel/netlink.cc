#include "netem/kernel/netlink.h"

#include <fmt/format.h>
#include <net/if.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/route/link/veth.h>
#include <netlink/route/neighbour.h>
#include <netlink/route/route.h>
#include <netlink/route/rule.h>

#include <linux/fib_rules.h>
#include <linux/if_addr.h>
#include <netinet/in.h>

#include <cerrno>

#include "base/status_macros.h"
#include "netem/kernel/netlink_objects.h"
#include "netem/kernel/posix.h"

namespace longhaul {
namespace {

using Link = NetlinkObject<rtnl_link, rtnl_link_put>;
using Address = NetlinkObject<nl_addr, nl_addr_put>;
using DeviceAddress = NetlinkObject<rtnl_addr, rtnl_addr_put>;
using Neighbour = NetlinkObject<rtnl_neigh, rtnl_neigh_put>;
using RouteObject = NetlinkObject<rtnl_route, rtnl_route_put>;
using RuleObject = NetlinkObject<rtnl_rule, rtnl_rule_put>;

absl::StatusOr<Address> Parse(const std::string& text) {
  nl_addr* address = nullptr;
  if (int e = nl_addr_parse(text.c_str(), AF_UNSPEC, &address); e < 0) {
    return NetlinkStatus(fmt::format("parse address '{}'", text), e);
  }
  return Address(address);
}

absl::Status Describe(rtnl_link* link, const VethEnd& end, int mtu) {
  auto mac = Parse(end.mac);
  if (!mac.ok()) return mac.status();
  rtnl_link_set_name(link, end.device.c_str());
  rtnl_link_set_addr(link, mac->get());
  rtnl_link_set_mtu(link, mtu);
  rtnl_link_set_ns_fd(link, end.netns_fd);
  return absl::OkStatus();
}

absl::StatusOr<Link> GetLink(nl_sock* socket, const std::string& device) {
  rtnl_link* link = nullptr;
  if (int e = rtnl_link_get_kernel(socket, 0, device.c_str(), &link); e < 0) {
    return NetlinkStatus(fmt::format("find device {}", device), e);
  }
  return Link(link);
}

}  // namespace

absl::Status NetlinkStatus(const std::string& what, int error) {
  const std::string message = fmt::format("{}: {}", what, nl_geterror(error));
  switch (-error) {
    case NLE_PERM:
      return absl::PermissionDeniedError(message);
    case NLE_OBJ_NOTFOUND:
    case NLE_NODEV:
      return absl::NotFoundError(message);
    case NLE_EXIST:
      return absl::AlreadyExistsError(message);
    default:
      return absl::InternalError(message);
  }
}

void Netlink::Free::operator()(nl_sock* socket) const { nl_socket_free(socket); }

absl::StatusOr<Netlink> Netlink::Open() {
  Netlink netlink(nl_socket_alloc());
  if (netlink.socket_ == nullptr) return absl::InternalError("netlink: no memory");
  if (int e = nl_connect(netlink.socket(), NETLINK_ROUTE); e < 0) {
    if (errno == EMFILE)
      return ErrnoStatus("netlink: connect", errno);  // libnl knows no word for it
    return NetlinkStatus("netlink: connect", e);
  }
  return netlink;
}

absl::StatusOr<int> Netlink::DeviceIndex(const std::string& device) const {
  ASSIGN_OR_RETURN(auto link, GetLink(socket(), device));
  return rtnl_link_get_ifindex(link.get());
}

absl::Status Netlink::CreateVeth(const VethEnd& a, const VethEnd& b, int mtu) const {
  const Link link(rtnl_link_veth_alloc());
  const Link peer(rtnl_link_veth_get_peer(link.get()));
  RETURN_IF_ERROR(Describe(link.get(), a, mtu));
  RETURN_IF_ERROR(Describe(peer.get(), b, mtu));
  const int e = rtnl_link_add(socket(), link.get(), NLM_F_CREATE | NLM_F_EXCL);
  if (e < 0) return NetlinkStatus(fmt::format("create veth {} - {}", a.device, b.device), e);
  return absl::OkStatus();
}

absl::Status Netlink::DeleteDevice(const std::string& device) const {
  ASSIGN_OR_RETURN(auto link, GetLink(socket(), device));
  const int e = rtnl_link_delete(socket(), link.get());
  return e < 0 ? NetlinkStatus(fmt::format("delete device {}", device), e) : absl::OkStatus();
}

absl::Status Netlink::Configure(const std::string& device, const std::string& mac, int mtu,
                                int queue_packets) const {
  ASSIGN_OR_RETURN(auto link, GetLink(socket(), device));
  ASSIGN_OR_RETURN(auto hardware, Parse(mac));
  const Link change(rtnl_link_alloc());
  rtnl_link_set_addr(change.get(), hardware.get());
  rtnl_link_set_mtu(change.get(), mtu);
  rtnl_link_set_txqlen(change.get(), queue_packets);
  const int e = rtnl_link_change(socket(), link.get(), change.get(), 0);
  if (e < 0) return NetlinkStatus(fmt::format("set MAC, MTU {} of {}", mtu, device), e);
  return absl::OkStatus();
}

absl::Status Netlink::SetFlags(const std::string& device, unsigned set, unsigned clear,
                               const char* what) const {
  ASSIGN_OR_RETURN(auto link, GetLink(socket(), device));
  const Link change(rtnl_link_alloc());
  rtnl_link_set_flags(change.get(), set);
  rtnl_link_unset_flags(change.get(), clear);
  const int e = rtnl_link_change(socket(), link.get(), change.get(), 0);
  if (e < 0) return NetlinkStatus(fmt::format("set {} {}", device, what), e);
  return absl::OkStatus();
}

absl::Status Netlink::SetUp(const std::string& device) const {
  return SetFlags(device, IFF_UP, 0, "up");
}
absl::Status Netlink::SetDown(const std::string& device) const {
  return SetFlags(device, 0, IFF_UP, "down");
}
absl::Status Netlink::SetQuiet(const std::string& device) const {
  return SetFlags(device, IFF_NOARP, IFF_MULTICAST, "quiet");
}

absl::Status Netlink::AddAddress(const std::string& device, const std::string& address) const {
  ASSIGN_OR_RETURN(auto index, DeviceIndex(device));
  ASSIGN_OR_RETURN(auto local, Parse(address));
  const DeviceAddress entry(rtnl_addr_alloc());
  rtnl_addr_set_ifindex(entry.get(), index);
  rtnl_addr_set_local(entry.get(), local.get());
  // Or IPv6 would ask for a second whether anybody has it.
  if (nl_addr_get_family(local.get()) == AF_INET6) rtnl_addr_set_flags(entry.get(), IFA_F_NODAD);
  const int e = rtnl_addr_add(socket(), entry.get(), 0);
  if (e < 0) return NetlinkStatus(fmt::format("add address {} to {}", address, device), e);
  return absl::OkStatus();
}

absl::Status Netlink::AddNeighbour(const std::string& device, const std::string& address,
                                   const std::string& mac) const {
  ASSIGN_OR_RETURN(auto index, DeviceIndex(device));
  ASSIGN_OR_RETURN(auto ip, Parse(address));
  ASSIGN_OR_RETURN(auto hardware, Parse(mac));
  const Neighbour entry(rtnl_neigh_alloc());
  rtnl_neigh_set_ifindex(entry.get(), index);
  rtnl_neigh_set_dst(entry.get(), ip.get());
  rtnl_neigh_set_lladdr(entry.get(), hardware.get());
  rtnl_neigh_set_state(entry.get(), NUD_PERMANENT);
  const int e = rtnl_neigh_add(socket(), entry.get(), NLM_F_CREATE | NLM_F_REPLACE);
  if (e < 0) return NetlinkStatus(fmt::format("add neighbour {} on {}", address, device), e);
  return absl::OkStatus();
}

struct Netlink::Route {
  std::string destination, device, gateway, source;
  int metric = 0;
  int mode = NLM_F_EXCL;  // or NLM_F_REPLACE
};

absl::Status Netlink::PutRoute(const Route& wanted) const {
  ASSIGN_OR_RETURN(auto to, Parse(wanted.destination));
  const RouteObject route(rtnl_route_alloc());
  rtnl_route_set_family(route.get(), static_cast<uint8_t>(nl_addr_get_family(to.get())));
  rtnl_route_set_dst(route.get(), to.get());
  rtnl_route_set_priority(route.get(), static_cast<uint32_t>(wanted.metric));
  if (wanted.device.empty()) {
    rtnl_route_set_type(route.get(), RTN_UNREACHABLE);
  } else {
    ASSIGN_OR_RETURN(auto index, DeviceIndex(wanted.device));
    rtnl_nexthop* hop = rtnl_route_nh_alloc();  // the route owns it once added
    rtnl_route_nh_set_ifindex(hop, index);
    rtnl_route_add_nexthop(route.get(), hop);
    rtnl_route_set_scope(route.get(), wanted.gateway.empty() ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE);
    if (!wanted.gateway.empty()) {
      ASSIGN_OR_RETURN(auto via, Parse(wanted.gateway));
      rtnl_route_nh_set_gateway(hop, via.get());
      rtnl_route_nh_set_flags(hop, RTNH_F_ONLINK);
    }
  }
  if (!wanted.source.empty()) {
    ASSIGN_OR_RETURN(auto from, Parse(wanted.source));
    rtnl_route_set_pref_src(route.get(), from.get());
  }
  const int e = rtnl_route_add(socket(), route.get(), NLM_F_CREATE | wanted.mode);
  if (e >= 0) return absl::OkStatus();
  return NetlinkStatus(wanted.device.empty()
                           ? fmt::format("make {} unreachable", wanted.destination)
                           : fmt::format("add route {} on {}", wanted.destination, wanted.device),
                       e);
}

absl::Status Netlink::AddRoute(const std::string& destination, const std::string& device,
                               const std::string& gateway) const {
  return PutRoute({destination, device, gateway, ""});
}

absl::Status Netlink::ReplaceDefaultRoute(const std::string& device, const std::string& gateway,
                                          const std::string& source) const {
  return PutRoute({"0.0.0.0/0", device, gateway, source, 0, NLM_F_REPLACE});
}

absl::Status Netlink::DropMulticastRoute(const std::string& device) const {
  ASSIGN_OR_RETURN(auto index, DeviceIndex(device));
  ASSIGN_OR_RETURN(auto to, Parse("ff00::/8"));
  const RouteObject route(rtnl_route_alloc());
  rtnl_route_set_family(route.get(), AF_INET6);
  rtnl_route_set_table(route.get(), RT_TABLE_LOCAL);
  rtnl_route_set_type(route.get(), RTN_MULTICAST);
  rtnl_route_set_protocol(route.get(), RTPROT_KERNEL);  // who added it
  rtnl_route_set_dst(route.get(), to.get());
  rtnl_nexthop* hop = rtnl_route_nh_alloc();
  rtnl_route_nh_set_ifindex(hop, index);
  rtnl_route_add_nexthop(route.get(), hop);
  const int e = rtnl_route_delete(socket(), route.get(), 0);
  if (e < 0) return NetlinkStatus(fmt::format("take the multicast route from {}", device), e);
  return absl::OkStatus();
}

absl::Status Netlink::AddUnreachable(const std::string& destination, int metric) const {
  return PutRoute({destination, "", "", "", metric});
}

absl::Status Netlink::RefuseTcp(const std::string& destination) const {
  auto to = Parse(destination);
  if (!to.ok()) return to.status();
  const RuleObject rule(rtnl_rule_alloc());
  rtnl_rule_set_family(rule.get(), nl_addr_get_family(to->get()));
  rtnl_rule_set_dst(rule.get(), to->get());
  rtnl_rule_set_ipproto(rule.get(), IPPROTO_TCP);
  rtnl_rule_set_action(rule.get(), FR_ACT_UNREACHABLE);
  const int e = rtnl_rule_add(socket(), rule.get(), NLM_F_CREATE | NLM_F_EXCL);
  if (e >= 0 || e == -NLE_OPNOTSUPP || e == -NLE_AF_NOSUPPORT) return absl::OkStatus();
  return NetlinkStatus(fmt::format("refuse TCP to {}", destination), e);
}

}  // namespace longhaul
