#include "experiments/spec/gpu_profiles.h"

#include <fmt/format.h>

#include "netem/topology/toml_tree.h"

namespace longhaul {

// Adding a profile is adding a line here, and to docs/plan-money.md.
const std::vector<GpuProfile>& GpuProfiles() {
  static const std::vector<GpuProfile> profiles = {
      {"a100", "A100 80GB SXM", 312e12, 80, 2039, "NVIDIA A100 Tensor Core GPU, data sheet"},
      {"h100", "H100 SXM", 989e12, 80, 3350, "NVIDIA H100 Tensor Core GPU, data sheet"},
      {"h200", "H200 SXM", 989e12, 141, 4800, "NVIDIA H200 Tensor Core GPU, data sheet"},
      {"rtx-4090", "GeForce RTX 4090", 165.2e12, 24, 1008,
       "NVIDIA Ada GPU Architecture, white paper"},
      {"l40s", "L40S", 362e12, 48, 864, "NVIDIA L40S, data sheet"},
  };
  return profiles;
}

absl::StatusOr<GpuProfile> FindGpuProfile(std::string_view name) {
  std::string known;
  for (const GpuProfile& profile : GpuProfiles()) {
    if (profile.name == name) return profile;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", profile.name);
  }
  return absl::NotFoundError(
      fmt::format("unknown device '{}'; known: {}; others by flops_per_s", Shown(name), known));
}

}  // namespace longhaul
