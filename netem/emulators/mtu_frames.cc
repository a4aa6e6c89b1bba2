#include "netem/emulators/mtu_frames.h"

#include <algorithm>

#include "netem/topology/access_lines.h"
#include "netem/topology/path_figure_table.h"
#include "netem/topology/queue_limits.h"

namespace longhaul {
namespace {

constexpr BitsPerSecond kSlowRate = Mbit(50);  // a 64 kB frame takes 10 ms here
constexpr int64_t kShortQueuePackets = 128;

}  // namespace

bool NeedsMtuFrames(const Topology& topology, int node) {
  const auto slow = [&](BitsPerSecond rate, int64_t limit) {
    return rate < kSlowRate || limit < kShortQueuePackets;
  };
  const auto slow_access = [&](int i, BitsPerSecond rate) {
    return slow(rate, AccessQueuePackets(topology, i, rate));
  };
  return std::any_of(topology.paths.begin(), topology.paths.end(), [&](const PathSpec& path) {
    if (path.from != node) return false;
    const AccessSpec* up = UplinkOf(topology, path);
    const AccessSpec* down = DownlinkOf(topology, path);
    const auto managed = [](const AccessSpec* line) {
      return line != nullptr && line->aqm.kind != QueueManagement::Kind::kDropTail;
    };
    const auto& figures = PathFigureTable();
    const bool has_share =
        std::any_of(figures.begin(), figures.end(), [&](const PathFigure& figure) {
          return figure.share != nullptr && figure.ShareOf(path) > 0;
        });
    return has_share || MeanLoss(path) > 0 || IsServedByEvents(path) || managed(up) ||
           managed(down) || (path.rate && slow(*path.rate, PathQueuePackets(topology, path))) ||
           (up != nullptr && slow_access(node, up->up)) ||
           (down != nullptr && slow_access(path.to, down->down));
  });
}

}  // namespace longhaul
