#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longhaul {

// What a backend keeps for one local rank between messages, beside the tensors that the trainer
// sees: residuals and tensors that codecs remember at either end, and the counters that key their
// noise. A run goes on bit-identically only if that comes back with the checkpoint. Backends that
// keep nothing (lossless, in memory) have none.
class ChannelState {
 public:
  virtual ~ChannelState() = default;
  // Called between two steps, when none of this rank's operations is outstanding.
  virtual absl::StatusOr<std::string> Save() = 0;
  // InvalidArgument: saved by channels of another kind (codec, slots, rank), naming both. DataLoss:
  // truncated or corrupt. Check changes nothing; Load, after a Check that said OK and before the
  // first operation, changes all or nothing.
  virtual absl::Status Check(std::string_view saved) const = 0;
  virtual absl::Status Load(std::string_view saved) = 0;
};

}  // namespace longhaul
