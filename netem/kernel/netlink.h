#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct nl_sock;
struct nl_addr;
struct rtnl_link;

namespace longhaul {

// One end of a veth pair: where it lives and what it is called there.
struct VethEnd {
  int netns_fd;
  std::string device;
  std::string mac;  // "02:00:00:01:00:00"
};

// Route and link requests to the network namespace of the thread that opened it (a netlink socket
// belongs to the namespace it was opened in). Every error names the request and the device.
// Thread safety: none.
class Netlink {
 public:
  static absl::StatusOr<Netlink> Open();

  absl::StatusOr<int> DeviceIndex(const std::string& device) const;
  absl::Status CreateVeth(const VethEnd& a, const VethEnd& b, int mtu) const;
  absl::Status DeleteDevice(const std::string& device) const;
  absl::Status Configure(const std::string& device, const std::string& mac, int mtu,
                         int queue_packets) const;
  absl::Status SetUp(const std::string& device) const;
  absl::Status SetDown(const std::string& device) const;
  // No neighbours are asked for and no groups joined there: the kernel sends nothing of its own.
  absl::Status SetQuiet(const std::string& device) const;
  absl::Status AddAddress(const std::string& device, const std::string& address) const;
  absl::Status AddNeighbour(const std::string& device, const std::string& address,
                            const std::string& mac) const;
  // `gateway` empty: the destination is on the device itself.
  absl::Status AddRoute(const std::string& destination, const std::string& device,
                        const std::string& gateway) const;
  // Instead of the one there is; what is sent has `source` where its sender does not care.
  absl::Status ReplaceDefaultRoute(const std::string& device, const std::string& gateway,
                                   const std::string& source) const;
  // What is sent to groups of IPv6 by way of the device fails at once.
  absl::Status DropMulticastRoute(const std::string& device) const;
  // What is sent there fails at once: "No route to host". Of two routes to one network the lower
  // metric counts.
  absl::Status AddUnreachable(const std::string& destination, int metric = 0) const;
  // TCP that is sent there fails at once, "Network is unreachable", and all else passes. OK and
  // without effect where the kernel has no rules of routes.
  absl::Status RefuseTcp(const std::string& destination) const;

  nl_sock* socket() const { return socket_.get(); }

 private:
  struct Route;
  struct Free {
    void operator()(nl_sock* socket) const;
  };
  explicit Netlink(nl_sock* socket) : socket_(socket) {}
  absl::Status PutRoute(const Route& route) const;
  absl::Status SetFlags(const std::string& device, unsigned set, unsigned clear,
                        const char* what) const;
  std::unique_ptr<nl_sock, Free> socket_;
};

// "what: Object not found"; `error` is one of libnl's negative values. -NLE_PERM becomes
// PermissionDenied, -NLE_OBJ_NOTFOUND NotFound, -NLE_EXIST AlreadyExists, the rest Internal.
absl::Status NetlinkStatus(const std::string& what, int error);

}  // namespace longhaul
