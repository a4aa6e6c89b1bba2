#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "netem/emulator.h"

namespace longhaul {

// What a record keeps of the system under a built emulator; read from the kernel, not from what was
// asked for.
struct HostFacts {
  std::string emulator;            // "netem" or "tap"
  std::string scheduling;          // "kernel", "SCHED_FIFO", "SCHED_OTHER"
  std::string kernel_release;      // uname -r
  std::string clock_source;        // "tsc", "kvm-clock", ...
  std::string congestion_control;  // of node 0, as all the following
  bool slow_start_after_idle;
  std::string tcp_rmem;  // "4096 131072 67108864": least, default, most, bytes
  std::string tcp_wmem;
  int mtu;
  std::string offloads;  // of net0: "tso on, gso on, gro on"
};
absl::StatusOr<HostFacts> ReadHostFacts(const Emulator& emulator);

// What a node's interface has received so far, bytes, as the kernel counts them.
absl::StatusOr<int64_t> InterfaceReceivedBytes(const Emulator& emulator, int node);

// The facts as name and text, in a fixed order; for tables and records.
std::vector<std::pair<std::string, std::string>> Describe(const HostFacts& facts);

}  // namespace longhaul
