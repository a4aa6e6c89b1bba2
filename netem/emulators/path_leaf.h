#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "netem/emulator.h"
#include "netem/emulators/traffic_control.h"
#include "netem/kernel/netlink.h"
#include "netem/topology/topology.h"

namespace longhaul {

// A path in the kernel, as a leaf of the classifier (AddClassifier). A netem's limit counts its
// delay line and its queue together, so that one netem with a rate, a delay and a limit of Q would
// not be a queue of Q packets. These are two, one below the other:
//
//   HTB class -> tbf -> netem: delay, jitter, loss .. -> netem: rate, limit Q
//
// The upper one's limit is never reached; whether a kernel counts in it what its child holds differs
// (6.1.176 does), so the queue has to be the lower one's. The token bucket holds nothing back. It is
// there for its count of frames: HTB puts a leaf to sleep that says it is empty, and netem says so,
// in kernels older than the end of 2024, while its child still holds some; a token bucket counts
// what it took in and has not given out.
struct PathLeaf {
  NetemSpec delay;
  NetemSpec rate;
};
PathLeaf PathLeafOf(const Topology& topology, const PathSpec& path);

// Builds the leaf of `slot`, or changes it while frames are inside.
absl::Status BuildPathLeaf(const Netlink& netlink, int ifindex, int slot, const PathLeaf& leaf);
absl::Status ChangePathLeaf(const Netlink& netlink, int ifindex, int slot, const PathLeaf& leaf);

// What it delivered, dropped and holds. A path that is down counts what it drops as loss.
absl::StatusOr<PathCounters> ReadPathLeaf(const Netlink& netlink, int ifindex, int slot);

}  // namespace longhaul
