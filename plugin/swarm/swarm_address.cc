#include "plugin/swarm/swarm_address.h"

#include <arpa/inet.h>

#include <charconv>
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
