#include "experiments/spec/known_names.h"

#include <fmt/format.h>

#include "compressors/catalog.h"
#include "netem/topology/topology_file.h"
#include "pp_group/schedule/catalog.h"

namespace longhaul {
namespace {

// A file is read where its nodes can be counted against ranks (run/check_first.h).
absl::Status KnownProfile(std::string_view name) {
  if (IsTopologyFile(name)) return absl::OkStatus();
  std::string known;
  for (const Profile& profile : Profiles()) {
    if (profile.name == name) return absl::OkStatus();
    known += fmt::format("{}{}", known.empty() ? "" : ", ", profile.name);
  }
  return absl::NotFoundError(fmt::format(
      "unknown profile '{}'; known: {}, or a topology file, which ends in .toml", name, known));
}

}  // namespace

SpecNames CatalogNames() {
  return {.codec = [](std::string_view name) { return MakeCodec(name).status(); },
          .profile = KnownProfile,
          .schedule =
              [](std::string_view name) {
                return name == "csv" ? absl::OkStatus() : FindSchedule(name).status();
              }};
}

}  // namespace longhaul
