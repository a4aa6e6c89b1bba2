#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "netem/emulator.h"

namespace longhaul {

// A private lab: a child process that is PID 1 of its own mount, network, PID and (when not root)
// user namespaces. Whatever it builds or starts is removed by the kernel when it dies, however it
// dies; and it dies with the process that made it (PR_SET_PDEATHSIG), even by kill -9.
//
// StartLab forks; the child runs `body` and exits with its value (0..125). Call from the main
// thread, before other threads exist. `keep_fds` stay open in the child; everything else above 2 is
// closed. `body` must reap children it starts (SpawnInNode's are its children).
// PermissionDenied: user namespaces are forbidden and we are not root; the message says what to do.
struct LabProcess {
  pid_t pid;  // of the process to wait for
};
absl::StatusOr<LabProcess> StartLab(std::function<int()> body, std::vector<int> keep_fds);

// Starts a program inside node `node`'s network namespace with a fresh /sys, so that it sees only
// lo and net0. `inherit_fds`: child fd -> our fd (0, 1, 2 included when wanted; else /dev/null).
// The child gets exactly `environment` and dies with its parent. Returns its pid.
struct NodeCommand {
  std::vector<std::string> argv;  // argv[0] is a path
  std::vector<std::string> environment;
  std::map<int, int> inherit_fds;
};
absl::StatusOr<pid_t> SpawnInNode(const Emulator& emulator, int node, const NodeCommand& command);

}  // namespace longhaul
