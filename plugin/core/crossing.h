#pragma once

#include <optional>

#include "absl/status/status.h"
#include "plugin/core/group_context.h"
#include "plugin/core/outbox.h"

namespace longhaul {

// One tensor from a rank to another of the same process, as an operation: encoded and decoded back to
// back into the tensor of the receive that waits for it, on the sender's thread; without a codec
// copied once, or not at all where both are one tensor. There is no packet, no queue and no other
// thread. Values, codec noise, hashes and counters are those of a message through a transport.
//
// Only what is plain crosses so: a receive is posted and next in turn, the tensors fit, the codec
// keeps no state, both nodes code inside the call (NodeCore::codes_inline). All else goes as packets,
// and so does what fails here: that path says what is wrong, to both ends and in its words.
struct Crossing {
  PacketHeader header;  // of the message; codec and message_bytes are set when it has crossed
  const WireTensor& x;
  const Codec* codec;  // nullptr: values as they are
  uint64_t seed;
  bool sampled;  // measure its error
  const Outbox& outbox;

  // What came of it.
  int64_t wire_bytes = 0;  // payload and packet headers, as through the transport
  uint32_t crc = 0;        // of the payload
  absl::Duration encode, decode;
  std::optional<double> nmse;
};

// Fills y. An error: nothing has crossed, and y holds unspecified values.
absl::Status Cross(Crossing& crossing, const WireTensor& y, NodeCore& node);

}  // namespace longhaul
