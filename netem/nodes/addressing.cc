#include "netem/nodes/addressing.h"

#include <fmt/format.h>

namespace longhaul {
namespace {

constexpr uint32_t kNetwork = 10u << 24;  // 10.0.0.0
constexpr int kNodesPerBlock = 250;       // .2 to .251 of each third byte
constexpr int kFirstInBlock = 2;

}  // namespace

uint32_t NodeAddressValue(int node) {
  return kNetwork | static_cast<uint32_t>(node / kNodesPerBlock) << 8 |
         static_cast<uint32_t>(kFirstInBlock + node % kNodesPerBlock);
}

int NodeOfAddress(uint32_t address) {
  const int last = static_cast<int>(address & 0xff) - kFirstInBlock;
  if ((address & 0xffff0000u) != kNetwork || last < 0 || last >= kNodesPerBlock) return -1;
  return static_cast<int>(address >> 8 & 0xff) * kNodesPerBlock + last;
}

std::string NodeAddress(int node) {
  const uint32_t a = NodeAddressValue(node);
  return fmt::format("{}.{}.{}.{}", a >> 24, a >> 16 & 0xff, a >> 8 & 0xff, a & 0xff);
}

std::string NodeAddress6(int node) {
  const uint32_t a = NodeAddressValue(node);
  return fmt::format("fd6c:6f6e:6768::{:x}:{:x}", a >> 16, a & 0xffff);
}

Mac MacOf(MacKind kind, int node) {
  return {2,
          0,
          0,
          static_cast<uint8_t>(kind),
          static_cast<uint8_t>(node >> 8),
          static_cast<uint8_t>(node)};
}

std::string ToString(const Mac& mac) {
  return fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", mac[0], mac[1], mac[2], mac[3],
                     mac[4], mac[5]);
}

}  // namespace longhaul
