#pragma once

#include <memory>
#include <vector>

#include "plugin/backend/process_group.h"

namespace longhaul {

// Ranks that all live in this process, each with its own loopback node: for runs without a network
// and for tests. The frames, codecs and checksums are those of a run over a network.

// `ranks` loopback nodes. Throws as ThrowIfError.
std::vector<std::shared_ptr<Node>> MakeLoopbackNodes(int ranks);

// One group over those nodes; element r is rank r's view of it and runs on nodes[r]. The group is
// named options.group_name, which must be unique among the nodes' groups. options.node is ignored.
std::vector<c10::intrusive_ptr<ProcessGroupLonghaul>> MakeLocalGroup(
    const std::vector<std::shared_ptr<Node>>& nodes, const ProcessGroupLonghaul::Options& options);

}  // namespace longhaul
