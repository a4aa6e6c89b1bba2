#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace longhaul {

// A device as its maker's data sheet has it. FLOP/s are of bfloat16 on tensor cores with sums in
// float32, dense: sheets that print the figure with sparsity print twice that.
struct GpuProfile {
  std::string_view name;  // of compute.profile
  std::string_view device;
  double flops_per_s, memory_gb, memory_gb_per_s;
  std::string_view source;  // title of the document
};
const std::vector<GpuProfile>& GpuProfiles();

// NotFound with the known names.
absl::StatusOr<GpuProfile> FindGpuProfile(std::string_view name);

}  // namespace longhaul
