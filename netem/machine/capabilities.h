#pragma once

#include <string>
#include <vector>

namespace longhaul {

// One thing that the WAN lab needs or uses, as found on this machine.
struct Capability {
  std::string name;    // "sch_netem"
  std::string found;   // "absent", "loadable", "6.18.44"
  bool good;           // false: something does not work, or works less well
  std::string advice;  // what to do when not good; "" else
};

struct Capabilities {
  std::vector<Capability> items;
  // What BuildEmulator can use here, and what the probe said where it can use none.
  bool netem = false;
  bool tap = false;
  bool lab = false;  // namespaces, as root or through a user namespace
  std::string best;  // "netem", "tap", or "none: WHY"
};

// Kernel, namespaces, sch_netem, /dev/net/tun, real-time scheduling, clock source, cores,
// congestion controls and buffer limits. Builds scratch labs and takes them down again; under a
// second. Call from the main thread before other threads exist (StartLab does).
Capabilities ProbeCapabilities();

}  // namespace longhaul
