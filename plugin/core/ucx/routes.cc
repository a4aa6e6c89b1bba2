#include "plugin/core/ucx/routes.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <memory>

namespace longhaul {
namespace {

constexpr const char* kAnyPort = "9";  // a datagram socket that is connected sends nothing

bool SameAddress(const sockaddr& a, const sockaddr& b) {
  if (a.sa_family != b.sa_family) return false;
  if (a.sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(a).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(b).sin_addr.s_addr;
  }
  return a.sa_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6&>(a).sin6_addr,
                     &reinterpret_cast<const sockaddr_in6&>(b).sin6_addr, sizeof(in6_addr)) == 0;
}

std::string InterfaceWith(const sockaddr& address) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(all, &::freeifaddrs);
  for (const ifaddrs* at = all; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr != nullptr && SameAddress(*at->ifa_addr, address)) return at->ifa_name;
  }
  return "";
}

std::optional<Route> RouteTo(const addrinfo& target) {
  const int fd = ::socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::nullopt;
  sockaddr_storage own = {};
  socklen_t size = sizeof(own);
  const bool known = ::connect(fd, target.ai_addr, target.ai_addrlen) == 0 &&
                     ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0;
  ::close(fd);
  const auto& source = reinterpret_cast<const sockaddr&>(own);
  char text[NI_MAXHOST];
  if (!known || ::getnameinfo(&source, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0) {
    return std::nullopt;
  }
  Route route{.source = text, .interface = InterfaceWith(source)};
  // 127.0.0.5 stands on no interface, but is of lo like its whole network.
  if (route.interface.empty() && route.source.starts_with("127.")) route.interface = "lo";
  return route.interface.empty() ? std::nullopt : std::optional<Route>(route);
}

}  // namespace

std::optional<Route> RouteTo(const std::string& host) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* all = nullptr;
  if (host.empty() || ::getaddrinfo(host.c_str(), kAnyPort, &hints, &all) != 0) return std::nullopt;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(all, &::freeaddrinfo);
  for (const addrinfo* at = all; at != nullptr; at = at->ai_next) {
    if (std::optional<Route> route = RouteTo(*at)) return route;
  }
  return std::nullopt;
}

}  // namespace longhaul
