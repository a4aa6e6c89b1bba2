#include "plugin/core/ucx/interfaces.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "compressors/numbers/noise.h"
#include "plugin/core/ucx/routes.h"

namespace longhaul {
namespace {

constexpr auto kNap = std::chrono::milliseconds(20);
constexpr int kMaxNaps = 100;

constexpr const char* kVariable = "LONGHAUL_INTERFACE";
constexpr std::string_view kNameOne =
    "name one by LONGHAUL_INTERFACE, by longhaul.Options(interface=...) or by 'longhaul worker "
    "--interface'";

// What moves no byte: what UCX logs, counts and traces, its handling of errors and signals (which is
// off: library.h), its hooks in malloc and mmap (likewise) and its caches of registered memory, of
// which TCP has none.
constexpr std::string_view kHarmless[] = {
    "UCX_HANDLE_ERRORS", "UCX_ERROR_SIGNALS", "UCX_DEBUG_SIGNO", "UCX_ASYNC_SIGNO",
    "UCX_GDB_COMMAND",   "UCX_MEMTYPE_CACHE", "UCX_PROTO_INFO",  "UCX_MODULE_LOG_LEVEL",
};
constexpr std::string_view kHarmlessPrefixes[] = {
    "UCX_LOG_",   "UCX_WARN_", "UCX_ERROR_MAIL_", "UCX_VFS_",    "UCX_PROFILE_",
    "UCX_STATS_", "UCX_MEM_",  "UCX_MEMTRACK_",   "UCX_RCACHE_", "UCX_BUILTIN_MEMCPY_",
};
// Of transports that TLS=tcp,self, set in code, keeps shut: clusters set these for everybody.
constexpr std::string_view kNeverOverTcp[] = {
    "UCX_IB_",       "UCX_RC_",   "UCX_DC_",    "UCX_UD_",  "UCX_CUDA_", "UCX_ROCM_",  "UCX_ZE_",
    "UCX_GDR_COPY_", "UCX_SYSV_", "UCX_POSIX_", "UCX_CMA_", "UCX_KNEM_", "UCX_XPMEM_",
};

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

// No name: none; `why` then goes on with what was tried.
ChosenInterface OneThatLeadsTo(const std::vector<std::string>& hosts,
                               const std::vector<std::string>& up) {
  for (const std::string& host : hosts) {
    const std::optional<Route> route = RouteTo(host);
    if (!route || std::find(up.begin(), up.end(), route->interface) == up.end()) continue;
    return {.name = route->interface, .why = fmt::format("it leads to {}", host)};
  }
  if (hosts.empty()) return {};
  return {.name = "",
          .why = fmt::format(" and none of them has the route to {}", fmt::join(hosts, " or "))};
}

bool IsHarmless(std::string_view variable) {
  const auto is = [&](std::string_view name) { return variable == name; };
  const auto begins = [&](std::string_view prefix) { return variable.starts_with(prefix); };
  return std::any_of(std::begin(kHarmless), std::end(kHarmless), is) ||
         std::any_of(std::begin(kHarmlessPrefixes), std::end(kHarmlessPrefixes), begins) ||
         std::any_of(std::begin(kNeverOverTcp), std::end(kNeverOverTcp), begins);
}

}  // namespace

std::string InterfaceOfEnvironment() {
  const char* const name = std::getenv(kVariable);
  return name == nullptr ? "" : name;
}

absl::StatusOr<ChosenInterface> ChooseInterface(const std::string& wanted,
                                                const std::vector<std::string>& toward) {
  const std::vector<std::string> names = KernelInterfaces();
  if (names.empty()) {
    return absl::FailedPreconditionError(fmt::format(
        "ucx: the kernel does not tell this process its interfaces: {}", std::strerror(errno)));
  }
  const auto bad = [&](std::string_view what) {
    return absl::FailedPreconditionError(
        fmt::format("ucx: {}; this network namespace has: {}", what, fmt::join(names, ", ")));
  };
  ChosenInterface chosen{.name = wanted, .why = "named"};
  if (wanted.empty()) chosen = {.name = InterfaceOfEnvironment(), .why = kVariable};
  if (chosen.name.empty()) {
    std::vector<std::string> up;
    std::copy_if(names.begin(), names.end(), std::back_inserter(up),
                 [](const std::string& name) { return name != "lo" && IsUp(name); });
    if (up.empty()) return bad("no interface besides lo is up");
    chosen = {.name = up[0], .why = "the only one up"};
    if (up.size() > 1) chosen = OneThatLeadsTo(toward, up);
    if (chosen.name.empty()) {
      return bad(fmt::format("several interfaces are up ({}){}: {}", fmt::join(up, ", "),
                             chosen.why, kNameOne));
    }
  } else if (std::find(names.begin(), names.end(), chosen.name) == names.end()) {
    return bad(fmt::format("no interface '{}' ({})", chosen.name, chosen.why));
  }
  if (!std::filesystem::exists("/sys/class/net/" + chosen.name)) {
    return bad(
        fmt::format("/sys/class/net, which UCX reads, does not show '{}': it is of another "
                    "network namespace; mount a fresh sysfs first",
                    chosen.name));
  }
  if (IsRunningSoon(chosen.name)) return chosen;
  return bad(IsUp(chosen.name)
                 ? fmt::format("'{}' has no carrier", chosen.name)
                 : fmt::format("'{}' is down: ip link set {} up", chosen.name, chosen.name));
}

absl::StatusOr<int64_t> InterfaceTxBytes(const std::string& interface) {
  const std::string path = "/sys/class/net/" + interface + "/statistics/tx_bytes";
  int64_t bytes = 0;
  if (std::ifstream file(path); file >> bytes) return bytes;
  return absl::FailedPreconditionError(fmt::format("read {}: {}", path, std::strerror(errno)));
}

uint64_t NetworkNamespaceId() {
  std::string boot;
  if (!(std::ifstream("/proc/sys/kernel/random/boot_id") >> boot)) {
    struct utsname host = {};  // some sandboxes have no boot id, and number namespaces from 1
    ::uname(&host);
    boot = host.nodename;
  }
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
    const std::string_view name = entry.substr(0, entry.find('='));
    if (name.starts_with("UCX_") && !IsHarmless(name)) names.emplace_back(name);
  }
  return names;
}

}  // namespace longhaul
