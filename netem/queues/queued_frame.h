#pragma once

#include <cstdint>
#include <vector>

namespace longhaul {

// A frame as a queue sees it. Times are synthetic, in ns.
struct QueuedFrame {
  uint32_t tag = 0;          // the owner's name for it
  int64_t wire_bytes = 0;    // Ethernet header included
  int64_t packet_bytes = 0;  // from the IP header on, of every segment
  int64_t packets = 1;       // of the MTU at most, that it stands for
  int64_t arrived_ns = 0;    // when it entered the queue
  uint64_t flow = 0;         // hash of addresses, protocol and ports
  bool ecn_capable = false;  // ECT(0), ECT(1) or CE in its IP header
  bool marked = false;       // the queue asks for CE
};

// Why a frame left a queue without being served.
enum class DropReason {
  kFull,     // no room
  kManaged,  // queue management saw it wait too long
};
struct DroppedFrame {
  QueuedFrame frame;
  DropReason reason;
};

}  // namespace longhaul
