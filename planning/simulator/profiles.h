#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "planning/simulator/scenario.h"

namespace longhaul::simulator {

// A device of the catalogue. FLOP/s dense; FP8 0 where it has none. Prices in USD: the governance
// list knows three devices, the later list all (0: not listed).
struct Device {
  std::string_view name;
  double fp16_flops;
  double fp8_flops;
  double memory_bytes;
  double price;
  double later_price;
};
const std::vector<Device>& Devices();
// nullptr where the catalogue has no such name.
const Device* FindDevice(std::string_view name);

// The defaults and switches of a profile (section 8), for one node.
Scenario ProfileScenario(ProfileName profile);

// Puts `count` of a device into the scenario's nodes: peak at the scenario's precision (FP4 at the
// FP8 peak), memory, price of the profile's list. False where the device lacks that precision or
// price.
bool SetNode(const Device& device, int64_t count, Scenario& scenario);

// The nodes that the golden rows are of: 48 A100 each (50 under `latest`), 16 H100 in FP8 each.
Scenario A100Nodes(int64_t nodes, ProfileName profile = ProfileName::kGovernance);
Scenario H100Fp8Nodes(int64_t nodes, ProfileName profile = ProfileName::kGovernance);
// The configurations 'A' to 'F' of section 8 of the governance tables: 4000 nodes of A100 (A, B, E)
// or 2000 of H100 in FP8; B, D, F hierarchical; E, F compress pseudo-gradients 100 times.
Scenario Configuration(char name);

}  // namespace longhaul::simulator
