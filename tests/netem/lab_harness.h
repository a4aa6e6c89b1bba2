#pragma once

#include <functional>
#include <string>

#include "netem/emulator.h"

namespace longhaul {

// Runs `body` in a private lab and passes its GoogleTest failures on: the body prints them itself,
// the test fails with one line. A lab that cannot be made skips the test with the reason.
void RunInLab(const std::function<void()>& body);

// For a body inside a lab: ends the test as skipped, for this reason, once the body returns.
void SkipFromLab(const std::string& why);

// Why this machine cannot run this emulator; "" when it can.
std::string WhyNot(EmulatorKind kind);

// Builds `topology` and runs `body` on it inside a lab, ahead of ordinary work where that is
// allowed. Skips the test with the reason where this machine cannot run the emulator.
void WithEmulator(EmulatorKind kind, const Topology& topology, const EmulatorOptions& options,
                  const std::function<void(Emulator&)>& body);
void WithEmulator(EmulatorKind kind, const Topology& topology,
                  const std::function<void(Emulator&)>& body);

}  // namespace longhaul
