#pragma once

#include "absl/status/status.h"
#include "netem/emulators/traffic_control.h"
#include "netem/kernel/netlink.h"
#include "netem/topology/topology.h"

namespace longhaul {

// A path in the kernel, as a leaf of the classifier (AddClassifier). A netem's limit counts its
// delay line and its queue together, so that one netem with a rate, a delay and a limit of Q would
// not be a queue of Q packets. These are two, one below the other:
//
//   HTB class -> tbf -> netem: rate, limit Q, loss, corruption -> netem: delay, jitter, reordering
//
// The upper one's limit is the queue before the rate; the lower one's is never reached. The token
// bucket holds nothing back. It is there for its count of frames: HTB puts a leaf to sleep that says
// it is empty, and netem says so, in kernels older than the end of 2024, while its child still
// holds some; a token bucket counts what it took in and has not given out.
struct PathLeaf {
  NetemSpec rate;
  NetemSpec delay;
};
PathLeaf PathLeafOf(const Topology& topology, const PathSpec& path);

// Builds the leaf of `slot`, or changes it while frames are inside. ReadCounters of LeafHandle(slot)
// tells what it delivered, dropped and holds.
absl::Status BuildPathLeaf(const Netlink& netlink, int ifindex, int slot, const PathLeaf& leaf);
absl::Status ChangePathLeaf(const Netlink& netlink, int ifindex, int slot, const PathLeaf& leaf);

}  // namespace longhaul
