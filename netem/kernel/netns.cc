#include "netem/kernel/netns.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

namespace longhaul {
namespace {

std::string PathOf(const std::string& name) { return "/run/netns/" + name; }

// Runs in its own thread, so that the caller's namespace does not change.
absl::StatusOr<Fd> UnshareAndBind(const std::string& name) {
  if (unshare(CLONE_NEWNET) != 0) {
    return ErrnoStatus(fmt::format("namespace {}: unshare network", name), errno);
  }
  const std::string path = PathOf(name);
  if (mount("/proc/thread-self/ns/net", path.c_str(), "none", MS_BIND, nullptr) != 0) {
    return ErrnoStatus(fmt::format("namespace {}: bind mount on {}", name, path), errno);
  }
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.ok()) return ErrnoStatus(fmt::format("namespace {}: open {}", name, path), errno);
  return fd;
}

}  // namespace

absl::StatusOr<NetNamespace> NetNamespace::Create(const std::string& name) {
  if (mkdir("/run/netns", 0755) != 0 && errno != EEXIST) {
    return ErrnoStatus("namespace: mkdir /run/netns", errno);
  }
  const std::string path = PathOf(name);
  if (!Fd(open(path.c_str(), O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)).ok()) {
    if (errno == EEXIST) {
      return absl::AlreadyExistsError(
          fmt::format("namespace {}: {} is there already; remove it with 'ip netns delete {}'",
                      name, path, name));
    }
    return ErrnoStatus(fmt::format("namespace {}: create {}", name, path), errno);
  }
  absl::StatusOr<Fd> fd = absl::UnknownError("not run");
  std::thread([&] { fd = UnshareAndBind(name); }).join();
  if (!fd.ok()) {
    umount2(path.c_str(), MNT_DETACH);
    unlink(path.c_str());
    return fd.status();
  }
  return NetNamespace(name, *std::move(fd));
}

NetNamespace::~NetNamespace() {
  if (!fd_.ok()) return;  // moved from
  const std::string path = PathOf(name_);
  umount2(path.c_str(), MNT_DETACH);
  unlink(path.c_str());
}

absl::Status InNamespace(int netns_fd, const std::function<absl::Status()>& work) {
  absl::Status status;
  std::thread([&] {
    if (setns(netns_fd, CLONE_NEWNET) != 0) {
      status = ErrnoStatus("enter a network namespace", errno);
    } else {
      status = work();
    }
  }).join();
  return status;
}

absl::StatusOr<Fd> OpenSocketIn(int netns_fd, int domain, int type, int protocol) {
  Fd fd;
  auto s = InNamespace(netns_fd, [&] {
    fd = Fd(socket(domain, type | SOCK_CLOEXEC, protocol));
    return fd.ok() ? absl::OkStatus() : ErrnoStatus("open a socket in a namespace", errno);
  });
  if (!s.ok()) return s;
  return fd;
}

}  // namespace longhaul
