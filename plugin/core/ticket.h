#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "plugin/core/group_context.h"
#include "plugin/core/outbox.h"

namespace longhaul {

// The place of one send in its channel, reserved at the call: number, noise and state are settled
// then, whatever is encoded first. On the strand but for what is marked.
struct Ticket {
  ChannelKey key;
  std::shared_ptr<OutMessage> message;
  WireTensor x;
  absl::Status failure;  // it will be given up when its turn has come
  bool submitted = false;
  absl::Duration submitted_at, coded_at;  // where a watch is told; else zero

  // Of one with a codec.
  const Codec* codec = nullptr;
  size_t slot = 0;
  bool stateful = false;
  enum class Stage { kWaiting, kCoding, kCoded } stage = Stage::kCoded;
  bool forget_state = false;                    // once it is coded
  bool sampled = false;                         // its error is measured
  std::optional<double> nmse;                   // the coder's until it is coded, like the next two
  void* decoded = nullptr;                      // wanted: what the receiver will hold
  std::vector<std::shared_ptr<Ticket>> copies;  // the same frame to other ranks
  absl::Status decode_status;                   // of filling it
  std::atomic<bool> abandoned = false;          // any thread
  absl::Duration encode_time;
  bool on_device = false;
};

// One channel's sending end.
struct SendChannel {
  uint64_t next_sequence = 0;
  uint64_t wanted_below = 0;
  std::vector<std::unique_ptr<CodecState>> residuals;  // states of the codec, by slot
  std::deque<std::shared_ptr<Ticket>> unsubmitted;     // first packets leave in this order
  std::deque<std::shared_ptr<Ticket>> uncoded;         // in order: what waits for its encoding
};

}  // namespace longhaul
