// Whatever stands in a safetensors file: it is refused in one line, or its tensors cover its
// values.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "experiments/train/safetensors.h"

namespace longhaul {
namespace {

void Demand(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace
}  // namespace longhaul

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul;
  const std::span content(reinterpret_cast<const std::byte*>(data), size);
  const auto entries = ParseSafetensors("x", content);
  if (!entries.ok()) {
    const std::string message(entries.status().message());
    Demand(absl::IsInvalidArgument(entries.status()) && message.size() < 400);
    Demand(std::none_of(message.begin(), message.end(),
                        [](char c) { return static_cast<unsigned char>(c) < 0x20; }));
    return 0;
  }
  size_t covered = 0;
  for (const auto& [name, entry] : *entries) {
    covered += entry.values.size();
    std::vector<float> values(entry.dtype == "F32" ? entry.values.size() / 4
                                                   : entry.values.size() / 2);
    if (entry.dtype == "F32" || entry.dtype == "F16" || entry.dtype == "BF16") {
      Demand(ConvertToFloat(entry, values).ok());
    }
  }
  Demand(covered <= size);
  return 0;
}
