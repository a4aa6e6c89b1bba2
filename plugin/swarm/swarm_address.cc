#include "plugin/swarm/swarm_address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <optional>

#include <fmt/format.h>

namespace longhaul {
namespace {

std::optional<uint32_t> Ip(std::string_view text) {
  in_addr address{};
  if (inet_pton(AF_INET, std::string(text).c_str(), &address) != 1) return std::nullopt;
  return ntohl(address.s_addr);
}

std::optional<uint32_t> Number(std::string_view text, uint32_t most) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > most) return std::nullopt;
  return value;
}

}  // namespace

absl::StatusOr<SwarmAddress> ParseSwarmAddress(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon != std::string_view::npos) {
    const auto port = Number(text.substr(colon + 1), 65535);
    if (Ip(text.substr(0, colon)) && port) {
      return SwarmAddress{std::string(text.substr(0, colon)), static_cast<uint16_t>(*port)};
    }
  }
  return absl::InvalidArgumentError(
      fmt::format("'{}': want an IPv4 address and a port, such as 10.0.0.2:6881", text));
}

std::string ToString(const SwarmAddress& address) {
  return fmt::format("{}:{}", address.ip, address.port);
}

std::string AddressToward(const std::string& host) {
  addrinfo wanted{};
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), "9", &wanted, &found) != 0) return "";
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in here{};
  socklen_t size = sizeof(here);
  char text[INET_ADDRSTRLEN] = "";
  if (connect(fd, found->ai_addr, found->ai_addrlen) == 0 &&
      getsockname(fd, reinterpret_cast<sockaddr*>(&here), &size) == 0) {
    inet_ntop(AF_INET, &here.sin_addr, text, sizeof(text));
  }
  if (fd >= 0) close(fd);
  freeaddrinfo(found);
  return text;
}

std::string AddressOfInterface(const std::string& interface) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  interface.copy(request.ifr_name, sizeof(request.ifr_name) - 1);
  char text[INET_ADDRSTRLEN] = "";
  if (ioctl(fd, SIOCGIFADDR, &request) == 0) {
    sockaddr_in here{};
    std::memcpy(&here, &request.ifr_addr, sizeof(here));
    inet_ntop(AF_INET, &here.sin_addr, text, sizeof(text));
  }
  if (fd >= 0) close(fd);
  return text;
}

absl::StatusOr<MemberRange> ParseMember(std::string_view text) {
  const size_t slash = text.find('/');
  const auto ip = Ip(text.substr(0, slash));
  const auto bits = slash == std::string_view::npos ? std::optional<uint32_t>(32)
                                                    : Number(text.substr(slash + 1), 32);
  if (!ip || !bits) {
    return absl::InvalidArgumentError(
        fmt::format("member '{}': want an IPv4 address, or a range such as 10.0.0.0/16", text));
  }
  const uint32_t beyond = *bits == 0 ? ~uint32_t{0} : (uint32_t{1} << (32 - *bits)) - 1;
  return MemberRange{*ip & ~beyond, *ip | beyond};
}

}  // namespace longhaul
