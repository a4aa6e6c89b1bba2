#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "netem/kernel/posix.h"

namespace longhaul {

// A network namespace with a name that `ip netns` understands: a bind mount on /run/netns/NAME.
// Move-only; destruction removes the name and our hold on the namespace.
class NetNamespace {
 public:
  // AlreadyExists: the name is taken. PermissionDenied: no CAP_SYS_ADMIN here.
  static absl::StatusOr<NetNamespace> Create(const std::string& name);

  NetNamespace(NetNamespace&& other) noexcept = default;
  NetNamespace& operator=(NetNamespace&& other) noexcept = delete;
  ~NetNamespace();

  int fd() const { return fd_.get(); }
  const std::string& name() const { return name_; }

 private:
  NetNamespace(std::string name, Fd fd) : name_(std::move(name)), fd_(std::move(fd)) {}
  std::string name_;
  Fd fd_;
};

// Runs `work` in a short-lived thread that has entered the namespace: sockets opened there and
// /proc/sys/net seen there are the namespace's. The calling thread stays where it is.
absl::Status InNamespace(int netns_fd, const std::function<absl::Status()>& work);

// A socket that belongs to the namespace, for use from any thread.
absl::StatusOr<Fd> OpenSocketIn(int netns_fd, int domain, int type, int protocol);

}  // namespace longhaul
