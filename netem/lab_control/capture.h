#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "netem/kernel/posix.h"

namespace longhaul {

// What arrives at a node from one address, as it leaves the link, written as a pcap file with
// nanosecond stamps of the kernel; tcpdump and Wireshark read it.
struct CaptureSpec {
  std::string device;       // of the calling thread's network namespace
  std::string from, to;     // IPv4 addresses of nodes; their IPv6 addresses go along
  bool both = false;        // also what goes from `to` to `from`, as it enters its link
  int stop_fd = -1;         // readable: stop; -1: none
  int64_t max_packets = 0;  // 0: no limit
  absl::Duration max_time = absl::InfiniteDuration();
  uint32_t snap_bytes = 1 << 18;  // of each frame
  int protocol = 0;               // IPPROTO_TCP, _UDP or _ICMP (of IPv6 its own); 0: all
  uint16_t port = 0;              // source or destination, of TCP and UDP; 0: all
};
struct Captured {
  int64_t packets = 0;
  int64_t lost = 0;  // by the kernel, because we read too slowly
};
absl::StatusOr<Captured> Capture(const CaptureSpec& spec, const Fd& file);

}  // namespace longhaul
