#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

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

// One tensor of a file that was read: where its values lie.
struct SafeEntry {
  std::string dtype;  // "F32", "BF16", ...: one of the format's
  std::vector<int64_t> shape;
  std::span<const std::byte> values;  // of the file; as many as dtype and shape say
};

// Reads the header of a file whose content is `content`, which must outlive the result. `name`
// names it in messages. InvalidArgument in one line: a length beyond the file or above 100 MB, no
// JSON object, a tensor twice, an unknown dtype, a shape or offsets that are no whole numbers from
// 0 on or that do not fit each other or the file, tensors that overlap or leave a gap.
absl::StatusOr<std::map<std::string, SafeEntry>> ParseSafetensors(
    const std::string& name, std::span<const std::byte> content);

// Values of an F32, F16 or BF16 tensor as float. InvalidArgument: another dtype.
absl::Status ConvertToFloat(const SafeEntry& entry, std::span<float> values);

}  // namespace longhaul
