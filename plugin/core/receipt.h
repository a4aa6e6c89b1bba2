#pragma once

#include <cstdint>
#include <optional>

#include "plugin/core/group_context.h"
#include "plugin/core/once.h"

namespace longhaul {

// A posted receive. Ended, it only takes its message away; while a coder writes into its tensor,
// its callback waits.
struct Receipt {
  WireTensor x;
  ChannelSpace space;
  int tag;
  uint64_t stamp;  // order of posting
  absl::Duration deadline;
  Once<absl::StatusOr<int>> done;
  bool decoding = false;
  std::optional<absl::StatusOr<int>> ended;  // while decoding: how

  bool open() const { return done && !ended; }
};

}  // namespace longhaul
