#include "experiments/spec/known_names.h"

#include <algorithm>

#include <fmt/format.h>

#include "compressors/catalog.h"
#include "netem/topology/topology_file.h"
#include "pp_group/schedule/catalog.h"

namespace longhaul {
namespace {

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

// Fit for one line of an error.
std::string Shown(std::string name) {
  std::replace_if(name.begin(), name.end(), IsControl, '?');
  if (name.size() > kArmNameBytes) name = name.substr(0, kArmNameBytes) + "...";
  return name;
}

// A file is read where its nodes can be counted against ranks (run/preflight.h).
absl::Status KnownProfile(std::string_view name) {
  if (IsTopologyFile(name)) return absl::OkStatus();
  std::string known;
  for (const Profile& profile : Profiles()) {
    if (profile.name == name) return absl::OkStatus();
    known += fmt::format("{}{}", known.empty() ? "" : ", ", profile.name);
  }
  if (const std::string why = WhyNoLinks(name); !why.empty()) return absl::NotFoundError(why);
  return absl::NotFoundError(fmt::format(
      "unknown profile '{}'; known: {}, or a topology file, which ends in .toml", name, known));
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

SpecNames CatalogNames() {
  return {.codec = [](std::string_view name) { return MakeCodec(name).status(); },
          .profile = KnownProfile,
          .schedule =
              [](std::string_view name) {
                return name == "csv" ? absl::OkStatus() : FindSchedule(name).status();
              }};
}

}  // namespace longhaul
