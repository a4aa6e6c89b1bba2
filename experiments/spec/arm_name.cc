#include "experiments/spec/arm_name.h"

#include <algorithm>

#include <fmt/format.h>

namespace longhaul {
namespace {

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

// Fit for one line of an error.
std::string Shown(std::string name) {
  std::replace_if(name.begin(), name.end(), IsControl, '?');
  if (name.size() > kArmNameBytes) name = name.substr(0, kArmNameBytes) + "...";
  return name;
}

}  // namespace

absl::Status CheckArmName(const std::string& origin, const std::string& name) {
  const bool fits = !name.empty() && name.size() <= kArmNameBytes &&
                    std::none_of(name.begin(), name.end(), IsControl) &&
                    name.find('@') == std::string::npos;
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: the name '{}' of {} bytes; want 1 to {} bytes without control characters "
                  "and '@'",
                  origin, Shown(name), name.size(), kArmNameBytes));
}

}  // namespace longhaul
