#include "planning/simulator/profiles.h"

namespace longhaul::simulator {

const std::vector<Device>& Devices() {
  static const std::vector<Device> devices = {
      {"a100", 312e12, 0, 80e9, 15000, 7000},
      {"h100", 990e12, 1980e12, 80e9, 30000, 25000},
      {"gh200", 990e12, 1980e12, 144e9, 30000, 28000},
      {"ascend-910b", 320e12, 640e12, 64e9, 0, 16000},
      {"ascend-910c", 600e12, 1200e12, 128e9, 0, 26000},
      {"tpu-v4", 275e12, 0, 32e9, 0, 12000},
      {"tpu-v5e", 197e12, 0, 16e9, 0, 6000},
      {"tpu-v5p", 459e12, 0, 95e9, 0, 20000},
      {"tpu-v6e", 918e12, 1836e12, 32e9, 0, 25000},
  };
  return devices;
}

const Device* FindDevice(std::string_view name) {
  for (const Device& device : Devices()) {
    if (device.name == name) return &device;
  }
  return nullptr;
}

bool SetNode(const Device& device, int64_t count, Scenario& s) {
  const double peak = s.precision == Precision::kFp16 ? device.fp16_flops : device.fp8_flops;
  const double price = s.profile == ProfileName::kLatest ? device.later_price : device.price;
  if (peak <= 0 || price <= 0) return false;
  s.devices = count;
  s.device_fp16_flops = device.fp16_flops;
  s.peak_flops = static_cast<double>(count) * peak;
  s.memory_bytes = static_cast<double>(count) * device.memory_bytes;
  s.device_price = price;
  return true;
}

Scenario ProfileScenario(ProfileName profile) {
  Scenario s;
  s.profile = profile;
  Switches& w = s.switches;
  if (profile != ProfileName::kGovernance) {
    w.tokens_per_parameter = 25.6;
    w.chi = true;
  }
  switch (profile) {
    case ProfileName::kGovernance:
      break;
    case ProfileName::kGovernancePp:
      w.activation_table = ActivationTable::kFirstPipeline;
      break;
    case ProfileName::kDocumentation:
      w.gradient_table = GradientTable::kDocumentation;
      w.activation_table = ActivationTable::kDocumentation;
      w.replica = Replica::kLoss;
      break;
    case ProfileName::kLatest:
      w.gradient_table = GradientTable::kErrorFeedback;
      w.activation_table = ActivationTable::kLatest;
      w.replica = Replica::kLoss;
      w.straggler = Straggler::kRelay;
      s.gradient_ratio = 150;
      break;
  }
  SetNode(*FindDevice("a100"), profile == ProfileName::kLatest ? 50 : 48, s);
  return s;
}

Scenario A100Nodes(int64_t nodes, ProfileName profile) {
  Scenario s = ProfileScenario(profile);
  s.nodes = nodes;
  return s;
}

Scenario H100Fp8Nodes(int64_t nodes, ProfileName profile) {
  Scenario s = ProfileScenario(profile);
  s.precision = Precision::kFp8;
  SetNode(*FindDevice("h100"), 16, s);
  s.nodes = nodes;
  return s;
}

Scenario Configuration(char name) {
  const bool a100 = name == 'A' || name == 'B' || name == 'E';
  Scenario s = a100 ? A100Nodes(4000) : H100Fp8Nodes(2000);
  if (name == 'B' || name == 'D' || name == 'F') s.topology = Topology::kHierarchical;
  if (name == 'E' || name == 'F') s.gradient_ratio = 100;
  return s;
}

}  // namespace longhaul::simulator
