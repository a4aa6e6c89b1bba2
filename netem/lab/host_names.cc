#include "netem/lab/host_names.h"

#include <fmt/format.h>
#include <sys/mount.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

#include "netem/emulator.h"
#include "netem/kernel/posix.h"

namespace longhaul {

namespace {

// In place of the host's file, where it has one. A link to nowhere counts as none: the C library
// then asks 127.0.0.1 by itself.
absl::Status Replace(const std::string& host_file, const std::string& text) {
  // /run is the lab's own.
  const std::string path = "/run/" + std::filesystem::path(host_file).filename().string();
  std::ofstream file(path);
  file << text;
  if (!file.flush()) return ErrnoStatus("lab: write " + path, errno);
  if (mount(path.c_str(), host_file.c_str(), nullptr, MS_BIND, nullptr) != 0 && errno != ENOENT) {
    return ErrnoStatus(fmt::format("lab: mount {} on {}", path, host_file), errno);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status NameNodes(const Topology& topology, const OtherNames& others) {
  std::string hosts = "127.0.0.1 localhost\n::1 localhost\n";
  for (size_t i = 0; i < topology.nodes.size(); ++i) {
    const std::string& name = topology.nodes[i].name;
    const std::string address = NodeAddress(static_cast<int>(i));
    // The second form is how a program that listens on IPv6 sees an IPv4 peer.
    hosts += fmt::format("{0} {1}\n::ffff:{0} {1}\n", address, name);
  }
  if (auto s = Replace("/etc/hosts", hosts + others.hosts); !s.ok()) return s;
  return Replace("/etc/resolv.conf", others.resolver.empty()
                                         ? "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"
                                         : others.resolver);
}

}  // namespace longhaul
