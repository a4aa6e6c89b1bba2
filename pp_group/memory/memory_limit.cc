#include "pp_group/memory/memory_limit.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace longhaul {
namespace {

constexpr char kFraction[] = "per_process_memory_fraction";

}  // namespace

MemoryLimit MemoryLimitOf(int64_t bytes, int64_t total_bytes, const AllocatorWords& words) {
  if (!words.knows_fraction) {
    return {"", absl::StrCat("none: torch ", words.torch, " has no word for it")};
  }
  if (words.settings.find(kFraction) != std::string::npos) {
    return {"", absl::StrCat("as the environment has it: ", words.settings)};
  }
  if (words.settings.find("cudaMallocAsync") != std::string::npos) {
    return {"",
            absl::StrCat("none: the environment names an allocator without one: ", words.settings)};
  }
  const std::string said = absl::StrCat(bytes / 1'000'000, " of ", total_bytes / 1'000'000, " MB");
  if (bytes >= total_bytes) return {"", absl::StrCat("none: the share is ", said)};
  // Rounded up: of a millionth of the GPU.
  const double share =
      std::ceil(1e6 * static_cast<double>(bytes) / static_cast<double>(total_bytes));
  std::string own = words.settings;
  while (!own.empty() && (own.back() == ',' || own.back() == ' ')) own.pop_back();
  return {absl::StrCat(own, own.empty() ? "" : ",", kFraction, ":",
                       absl::StrFormat("%.6f", share / 1e6)),
          said};
}

}  // namespace longhaul
