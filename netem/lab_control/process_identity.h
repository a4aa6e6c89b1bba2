#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "netem/kernel/posix.h"

namespace longhaul {

// A process that is written down and found again later, never taken for another one that has got
// its number: number, start in clock ticks since boot, PID namespace and boot.

// One line about a process that we see; "" where there is none.
std::string IdentityOf(pid_t pid);

// A pidfd of the process that such a line is about; not ok() where it is gone, or cannot be seen
// from here.
Fd OpenProcess(const std::string& identity);

// Pidfds of a process and of its children, the children first; the process by its pidfd.
std::vector<Fd> WithChildren(Fd process);

// SIGKILL, also to one that is stopped.
void KillProcess(const Fd& process);

// Whether it has ended in that time; a zombie has.
bool EndedWithin(const Fd& process, absl::Duration patience);

}  // namespace longhaul
