#include "netem/host_names.h"

#include <fmt/format.h>
#include <sys/mount.h>

#include <cerrno>
#include <fstream>
#include <string>

#include "netem/emulator.h"
#include "netem/posix.h"

namespace longhaul {

absl::Status NameNodes(const Topology& topology) {
  const std::string path = "/run/hosts";  // /run is the lab's own
  std::ofstream file(path);
  file << "127.0.0.1 localhost\n::1 localhost\n";
  for (size_t i = 0; i < topology.nodes.size(); ++i) {
    const std::string& name = topology.nodes[i].name;
    const std::string address = NodeAddress(static_cast<int>(i));
    // The second form is how a program that listens on IPv6 sees an IPv4 peer.
    file << address << ' ' << name << "\n::ffff:" << address << ' ' << name << '\n';
  }
  if (!file.flush()) return ErrnoStatus("lab: write " + path, errno);
  if (mount(path.c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr) != 0 && errno != ENOENT) {
    return ErrnoStatus("lab: mount the nodes' names on /etc/hosts", errno);
  }
  return absl::OkStatus();
}

}  // namespace longhaul
