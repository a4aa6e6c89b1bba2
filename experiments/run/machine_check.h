#pragma once

#include <string>
#include <vector>

#include "netem/machine/capabilities.h"

namespace longhaul {

// Where and from what a run was made; for its record. Empty or "unknown" where the machine does not
// say, never guessed.
struct RunHost {
  std::string host;
  std::string kernel;
  std::string cpu;
  int cores;
  double load_1min;
  std::string git_revision;  // of the source tree this binary was built from, "+" when modified
};
RunHost ReadRunHost();

// One thing this machine was asked, and what came back. Nothing is assumed: each is tried.
struct MachineCheck {
  std::string subject;  // "kernel", "lab", ...
  bool ok;
  std::string found;   // one line
  std::string remedy;  // what to do about it; empty when ok
};

// Can links be shaped here? Builds a two-node lab with the emulator that a run would use and
// removes it. Call from the main thread, before other threads exist.
MachineCheck CheckLab();

// What the WAN lab needs, as probed, then processor, torch, UCX, libtorrent, matplotlib, GPU.
std::vector<MachineCheck> CheckMachine(const Capabilities& capabilities);

}  // namespace longhaul
