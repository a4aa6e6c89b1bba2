#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "plugin/core/matcher.h"

namespace longhaul {

// A message on its way in. Before a receive takes it, its packets are held in the transport's
// buffers; afterwards bytes go straight to where they belong.
struct Matcher::Arrival {
  Peer* peer;
  int rank;
  PacketHeader header;  // of its first packet
  uint64_t received_bytes = 0;
  uint32_t crc = 0;
  int64_t packets = 0;
  bool complete = false;
  uint64_t completion = 0;  // order of completion among all sources
  std::vector<KeptBytes> held;
  size_t held_bytes = 0;             // headers included
  std::shared_ptr<Receipt> receipt;  // once matched
  PooledBuffer assembled;            // a codec frame of several packets, or to be decoded in order
  absl::Duration decode_time;
  absl::Status failure;  // the rest of the message is taken and thrown away
};

}  // namespace longhaul
