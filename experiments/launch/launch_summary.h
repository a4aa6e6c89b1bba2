#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "experiments/launch/launch_record.h"

namespace longhaul {

// A table of the ranks, and one of the paths that carried something; bytes as of BytesBetween.
std::string LaunchSummary(const Topology& topology, const std::vector<RankEnd>& ends,
                          const std::map<std::pair<int64_t, int64_t>, int64_t>& bytes_on_paths);

}  // namespace longhaul
