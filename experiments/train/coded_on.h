#pragma once

#include <string>
#include <vector>

#include "experiments/spec/spec.h"

namespace longhaul {

// What codes the boundaries' tensors, as this build does it: "device", where a stage computes on a GPU
// and every codec has kernels there; "host"; or "device; host: NAME, .." where the named codecs have
// none. "": nothing is coded at a boundary. Outer deltas and gradients are always coded on the host.
inline constexpr char kCodedOnFact[] = "coded_on";
std::string CodedOn(const RunSpec& spec);

// A line for a run on a GPU whose boundary codecs work on the host; else empty.
std::vector<std::string> CodedOnAdvice(const RunSpec& spec);

}  // namespace longhaul
