#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "netem/emulator.h"

namespace longhaul {

// 'a>b' is one direction, 'a<>b' both; '*' stands for every node. The paths of the topology that
// are meant. NotFound: an unknown node, or no such path.
absl::StatusOr<std::vector<std::pair<int, int>>> SelectPaths(const Topology& topology,
                                                             std::string_view selector);

// What `set` does to one path.
struct PathChange {
  PathSpec path;
  std::optional<Carrier> carrier = std::nullopt;
  std::optional<absl::Duration> outage = std::nullopt;  // down now, up again after this
};

// Applies KEY=VALUE words to a path's figures: those of PathFigureTable, and
//   outage=3s      down now, up again after that time; several may overlap
//   carrier=down   until carrier=up, which ends outages too
// A number without its unit is refused with the readings it may have (figure_text.h).
// `mtu`: of the topology. InvalidArgument: unknown key, a value that cannot be read; what
// ReadRateTrace says. The figures are not judged here
// (ValidatePath does).
absl::StatusOr<PathChange> ApplyAssignments(const PathSpec& path,
                                            const std::vector<std::string>& assignments,
                                            int mtu = 1500);

// Would every change of the topology's schedule be understood and leave good figures?
// InvalidArgument or NotFound, "FILE:LINE: ...".
absl::Status CheckSchedule(const Topology& topology);

}  // namespace longhaul
