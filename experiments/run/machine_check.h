#pragma once

#include <string>
#include <vector>

#include "netem/machine/capabilities.h"

namespace longhaul {

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

// The interpreter that reports call for their figures: TORCH_PYTHON of the build.
std::string PlotPython();

}  // namespace longhaul
