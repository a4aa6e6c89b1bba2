#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "netem/emulator.h"

namespace longhaul {

// NodeAddress(node) as a number in host byte order.
uint32_t NodeAddressValue(int node);

// The node that has this address (host byte order), or -1 when no node can have it.
int NodeOfAddress(uint32_t address);

// Every NodeAddress is in it.
inline constexpr char kNodeNetwork[] = "10.0.0.0/16";

inline constexpr char kNodeNetwork6[] = "fd6c:6f6e:6768::/96";
inline constexpr std::array<uint8_t, 12> kNodePrefix6 = {0xfd, 0x6c, 0x6f, 0x6e, 0x67, 0x68};

// Every device has a chosen MAC, so that neighbours are known without asking: an ARP exchange would
// pass the shaped link and cost a round trip. "02:00:00:KK:II:II", KK one of these.
enum class MacKind : uint8_t {
  kNode = 1,
  kLan = 2,
  kWan = 3,
  kCore = 4,
  kSwitch = 5,
  kGateway = 6,
  kRelay = 7
};
using Mac = std::array<uint8_t, 6>;
Mac MacOf(MacKind kind, int node);
std::string ToString(const Mac& mac);

// What every node's default route points at; a name for the MAC of the next hop, no device has it.
inline constexpr char kGatewayAddress[] = "169.254.1.1";
inline constexpr char kGatewayAddress6[] = "fe80::1";

}  // namespace longhaul
