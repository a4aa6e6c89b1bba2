#pragma once

#include <memory>

#include "plugin/backend/process_group.h"
#include "pp_group/state/channel_state.h"

namespace longhaul {

// The state of one rank's channels of a group of our backend, as checkpoints want it.
std::shared_ptr<ChannelState> StateOfGroup(c10::intrusive_ptr<ProcessGroupLonghaul> group);

}  // namespace longhaul
