#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace longhaul {

// One fp32 tensor of a file; values in row order, as many as the shape says.
struct SafeTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::span<const float> values;
};

// Writes a file that the safetensors libraries read: eight bytes with the length of a JSON header,
// the header, the values, little-endian. It stands under its name only when it is whole.
// Unavailable with path and reason where it cannot be written.
absl::Status WriteSafetensors(const std::string& path, std::span<const SafeTensor> tensors,
                              const std::map<std::string, std::string>& metadata);

}  // namespace longhaul
