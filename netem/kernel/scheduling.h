#pragma once

#include <functional>
#include <string_view>
#include <thread>

namespace longhaul {

// Ahead of ordinary work: the emulating thread above the probes, both far below the kernel's own.
enum class RealTime { kEmulator = 10, kProbe = 1 };

// Puts the calling thread into SCHED_FIFO; threads that it starts inherit that only for kProbe.
// Returns the class that it is in then: "SCHED_FIFO", or "SCHED_OTHER" where it is not allowed
// (no CAP_SYS_NICE outside a user namespace, no RLIMIT_RTPRIO).
std::string_view EnterRealTime(RealTime role);

// Back to ordinary scheduling.
void LeaveRealTime();

// A thread that no signal goes to: those are for the program's own threads.
std::thread ThreadWithoutSignals(std::function<void()> run);

}  // namespace longhaul
