#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compressors/frame_receiver.h"
#include "plugin/core/coding.h"
#include "plugin/core/group_context.h"
#include "plugin/core/sender.h"

namespace longhaul {

// What a group's channels keep between messages, at this rank's ends of them.
struct GroupState {
  struct Receiver {
    uint64_t next_sequence = 0;
    std::vector<FrameReceiver> slots;
  };
  CodingTable::Used used;
  std::vector<int64_t> encoded_frames;  // by rank, for NMSE sampling
  std::map<ChannelKey, SendChannel> senders;
  std::map<ChannelKey, Receiver> receivers;
};

// What Group::SaveState wrote. Errors as Group::LoadState. Any thread.
absl::StatusOr<GroupState> ParseGroupState(std::string_view saved, const GroupOptions& options,
                                           const CodingTable& coding);

}  // namespace longhaul
