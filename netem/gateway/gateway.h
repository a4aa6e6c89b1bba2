#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "netem/emulator.h"
#include "netem/kernel/posix.h"
#include "netem/nodes/device_counters.h"

namespace longhaul {

// A way out of a lab. Every node has a second interface, gw0, which has no address of its own: what
// leaves there has the node's own address, and what is between nodes never does (gateway.cc).
// A relay outside the lab (relay.h) answers its frames and opens the sockets that they ask for, as
// an ordinary program of the host. So nothing of the host's is changed: no forwarding, no NAT, no
// device; and it needs no more rights than the lab itself. gw0 is not shaped.
inline constexpr char kGatewayDevice[] = "gw0";
inline constexpr char kHostName[] = "host.internal";  // in the lab's hosts file: kHostAddress

// What stands for the host in every node, from the network for benchmarks of RFC 2544, which no
// host is in.
inline constexpr char kRelayNetwork[] = "198.18.0.0/30";
inline constexpr char kHostAddress[] = "198.18.0.1";        // the host's own 127.0.0.1
inline constexpr char kNameServerAddress[] = "198.18.0.2";  // the host's name server

// TCP connections to a port of the host's that go on to one of a node's.
struct PortForward {
  std::string host_address;  // IPv4
  int host_port;
  std::string node;
  int node_port;
};
// "[ADDRESS:]HOST_PORT:NODE:PORT"; without an address 127.0.0.1. InvalidArgument.
absl::StatusOr<PortForward> ParseForward(const std::string& text);
std::string ToString(const PortForward& forward);  // "127.0.0.1:8080 > a:80"

// How the host resolves names.
struct HostResolver {
  std::string server;  // its first name server with an IPv4 address; "": none
  std::string rules;   // its lines "search", "domain" and "options"
};
// From the text of a resolv.conf.
HostResolver ParseResolver(std::string_view resolv_conf);

struct GatewaySpec {
  std::vector<PortForward> forwards;
  HostResolver resolver;
};
// InvalidArgument: a forward to a node that is not there, or two from one port.
absl::Status CheckGateway(const GatewaySpec& spec, const Topology& topology);

// The lab's end of it. Thread safety: none.
class Gateway {
 public:
  // Gives every node its gw0, with routes, and hands them to the relay at the other end of `relay`.
  // Call inside the lab. An error names the node or the forward, and what to do.
  static absl::StatusOr<std::unique_ptr<Gateway>> Build(GatewaySpec spec, const Emulator& emulator,
                                                        Fd relay);

  const GatewaySpec& spec() const { return spec_; }
  // Unavailable: the relay has ended, and with it every gw0.
  absl::Status health() const;
  // Of a node's gw0; zero once the relay has ended.
  DeviceCounters counters(const Emulator& emulator, int node) const;

 private:
  Gateway(GatewaySpec spec, Fd relay) : spec_(std::move(spec)), relay_(std::move(relay)) {}
  GatewaySpec spec_;
  Fd relay_;
};

}  // namespace longhaul
