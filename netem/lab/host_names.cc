#include "netem/lab/host_names.h"

#include <fmt/format.h>
#include <sys/mount.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/status_macros.h"
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

// Of gai.conf(5): the table that the C library has built in, but for the last line.
constexpr char kIpv4First[] =
    "precedence ::1/128 50\nprecedence ::/0 40\nprecedence 2002::/16 30\nprecedence ::/96 20\n"
    "precedence ::ffff:0:0/96 100\n";

}  // namespace

absl::Status NameNodes(const Topology& topology, const OtherNames& others) {
  std::string hosts = "127.0.0.1 localhost\n::1 localhost\n";
  for (size_t i = 0; i < topology.nodes.size(); ++i) {
    const std::string& name = topology.nodes[i].name;
    const std::string address = NodeAddress(static_cast<int>(i));
    // The last form is how a program that listens on IPv6 sees an IPv4 peer. Where names have IPv6
    // addresses it has a name of its own, or who asks for one of those would be given it.
    hosts += others.ip == IpVersions::kIpv4
                 ? fmt::format("{0} {1}\n::ffff:{0} {1}\n", address, name)
                 : fmt::format("{0} {1}\n{2} {1}\n::ffff:{0} {1}.v4\n", address, name,
                               NodeAddress6(static_cast<int>(i)));
  }
  if (others.ip == IpVersions::kBoth) {
    RETURN_IF_ERROR(Replace("/etc/gai.conf", kIpv4First));
  }
  RETURN_IF_ERROR(Replace("/etc/hosts", hosts + others.hosts));
  return Replace("/etc/resolv.conf", others.resolver.empty()
                                         ? "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"
                                         : others.resolver);
}

}  // namespace longhaul
