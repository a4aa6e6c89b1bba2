#include "plugin/core/ucx/interfaces.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/format.h>

#include "compressors/numbers/noise.h"

namespace longhaul {
namespace {

constexpr auto kNap = std::chrono::milliseconds(20);
constexpr int kMaxNaps = 100;

std::vector<std::string> KernelInterfaces() {
  std::vector<std::string> names;
  struct if_nameindex* const all = ::if_nameindex();
  if (all == nullptr) return names;
  for (const struct if_nameindex* at = all; at->if_index != 0; ++at) names.push_back(at->if_name);
  ::if_freenameindex(all);
  return names;
}

bool IsUp(const std::string& name) {
  unsigned flags = 0;
  std::ifstream("/sys/class/net/" + name + "/flags") >> std::hex >> flags;
  return (flags & IFF_UP) != 0;
}

// The kernel sets RUNNING a moment after an interface has come up; until then UCX passes it over.
bool IsRunningSoon(const std::string& name) {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  bool running = false;
  for (int naps = 0; fd >= 0 && !running && naps < kMaxNaps; ++naps) {
    struct ifreq request = {};
    name.copy(request.ifr_name, sizeof(request.ifr_name) - 1);
    running = ::ioctl(fd, SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_RUNNING) != 0;
    if (!running) std::this_thread::sleep_for(kNap);
  }
  if (fd >= 0) ::close(fd);
  return running;
}

}  // namespace

absl::StatusOr<std::string> ChooseInterface(const std::string& wanted) {
  const std::vector<std::string> names = KernelInterfaces();
  const auto bad = [&](std::string_view what) {
    return absl::FailedPreconditionError(
        fmt::format("ucx: {}; this network namespace has: {}", what, fmt::join(names, ", ")));
  };
  std::vector<std::string> matching;
  for (const std::string& name : names) {
    if (wanted.empty() ? name != "lo" && IsUp(name) : name == wanted) matching.push_back(name);
  }
  if (matching.empty()) {
    return bad(wanted.empty() ? "no interface besides lo is up"
                              : fmt::format("no interface '{}'", wanted));
  }
  if (matching.size() > 1) {
    return bad(fmt::format("several interfaces ({}): name one", fmt::join(matching, ", ")));
  }
  if (!std::filesystem::exists("/sys/class/net/" + matching[0])) {
    return bad(
        fmt::format("/sys/class/net, which UCX reads, does not show '{}': it is of another "
                    "network namespace; mount a fresh sysfs first",
                    matching[0]));
  }
  if (!IsRunningSoon(matching[0])) {
    return bad(fmt::format("'{}' has no carrier", matching[0]));
  }
  return matching[0];
}

absl::StatusOr<int64_t> InterfaceTxBytes(const std::string& interface) {
  const std::string path = "/sys/class/net/" + interface + "/statistics/tx_bytes";
  int64_t bytes = 0;
  if (std::ifstream file(path); file >> bytes) return bytes;
  return absl::FailedPreconditionError(fmt::format("read {}: {}", path, std::strerror(errno)));
}

uint64_t NetworkNamespaceId() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat ns = {};
  ::stat("/proc/self/ns/net", &ns);
  uint64_t hash = FoldSeed({ns.st_dev, ns.st_ino});
  for (const char c : boot) hash = FoldSeed({hash, static_cast<unsigned char>(c)});
  return hash;
}

std::vector<std::string> UcxVariables() {
  std::vector<std::string> names;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view entry(*at);
    if (entry.starts_with("UCX_")) names.emplace_back(entry.substr(0, entry.find('=')));
  }
  return names;
}

}  // namespace longhaul
