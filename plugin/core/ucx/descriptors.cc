#include "plugin/core/ucx/descriptors.h"

#include <dirent.h>
#include <sys/resource.h>

#include <string>

#include <fmt/format.h>

namespace longhaul {
namespace {

// The most that UCX 1.13.1 was seen to take; plugin_descriptors_test fails where one takes more.
constexpr int kOfNode =
    13;                     // our epoll and eventfd, UCX's thread, two workers with their listeners
constexpr int kOfPeer = 4;  // two lanes, each with a connection from here and one from the peer
constexpr int kBeside = 1;  // a file of /proc or /sys that is read meanwhile

// Of this process; `limit` where not even one is left to look with.
rlim_t OpenDescriptors(rlim_t limit) {
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return limit;
  rlim_t open = 0;
  while (const dirent* entry = ::readdir(folder)) open += entry->d_name[0] != '.';
  ::closedir(folder);
  return open - 1;  // the folder itself
}

}  // namespace

absl::Status CheckDescriptors(UcxNodeIs node, int new_peers) {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return absl::OkStatus();
  }
  const rlim_t open = OpenDescriptors(limit.rlim_cur);
  const int for_node = node == UcxNodeIs::kToBeMade ? kOfNode : 0;
  const rlim_t needed = open + static_cast<rlim_t>(for_node + kOfPeer * new_peers + kBeside);
  if (new_peers + for_node == 0 || needed <= limit.rlim_cur) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "ucx: {} file descriptors are needed ({} are open, {} for the network, {} for each of {} "
      "peers), the limit is {}: raise it (ulimit -n {})",
      needed, open, for_node + kBeside, kOfPeer, new_peers, limit.rlim_cur, needed));
}

}  // namespace longhaul
