#include "experiments/launch/launch_summary.h"

#include <algorithm>

#include <fmt/format.h>

#include "experiments/estimates/table.h"

namespace longhaul {

std::string LaunchSummary(const Topology& topology, const std::vector<RankEnd>& ends,
                          const std::map<std::pair<int64_t, int64_t>, int64_t>& bytes_on_paths) {
  Table ranks{.columns = ColumnsOf("rank | node | ended with | wall s | CPU s | peak MB")};
  for (size_t rank = 0; rank < ends.size(); ++rank) {
    const RankEnd& end = ends[rank];
    ranks.Add({fmt::format("{}", rank), topology.nodes[rank].name, EndText(end.status),
               fmt::format("{:.2f}", end.wall_s), fmt::format("{:.2f}", end.cpu_s),
               fmt::format("{}{:.0f}", end.peak_is_bound ? "<= " : "",
                           static_cast<double>(end.peak_bytes) / 1e6)});
  }
  Table paths{.columns = ColumnsOf("path | bytes | mean Mbit/s")};
  double longest = 0;
  for (const RankEnd& end : ends) longest = std::max(longest, end.wall_s);
  for (const auto& [path, bytes] : bytes_on_paths) {
    if (bytes == 0) continue;
    paths.Add(
        {fmt::format("{} > {}", topology.nodes[path.first].name, topology.nodes[path.second].name),
         fmt::format("{}", bytes),
         fmt::format("{:.3f}", longest > 0 ? 8e-6 * static_cast<double>(bytes) / longest : 0)});
  }
  if (std::all_of(bytes_on_paths.begin(), bytes_on_paths.end(),
                  [](const auto& path) { return path.second == 0; })) {
    return GridText(ranks) + "\nno path carried anything\n";
  }
  return fmt::format("{}\n{}bytes: Ethernet frames, as the emulator counted them\n",
                     GridText(ranks), GridText(paths));
}

}  // namespace longhaul
