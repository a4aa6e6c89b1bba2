#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

#include "absl/status/statusor.h"
#include "netem/emulator.h"

namespace longhaul {

// A private lab: a child process in its own mount, network, PID and (when not root) user
// namespaces. Whatever it builds or starts is removed by the kernel when it dies, however it dies;
// and it dies with the process that made it (PR_SET_PDEATHSIG), even by kill -9.
//
// StartLab forks and returns once the namespaces stand; the child then runs `body` and exits with
// its value (0..125; 128 + signal when a signal ended it). Call from the main thread, before other
// threads exist. `keep_fds` stay open in the child; everything else above 2 is closed. Inside, an
// init process reaps orphans, so `body` waits only for children that it started itself
// (SpawnInNode's are its children). The file system is what lab_mounts.h says; the working folder
// stays the caller's.
//
// Signals: SIGTERM to `pid` is passed on to `body`; SIGKILL ends the whole lab at once. SIGINT from
// a terminal reaches `body` directly.
// PermissionDenied: user namespaces are forbidden and we are not root; the message says what to do.
struct LabProcess {
  pid_t pid;  // of the process to wait for
};
// A process beside the lab, in the caller's namespaces: it runs `body` with `keep_fds` open, and is
// killed when the lab's outermost process ends, however that ends.
struct LabCompanion {
  std::function<int()> body = nullptr;  // null: none
  std::vector<int> keep_fds = {};
};

// kDetached: a session of its own with /dev/null as 0, 1 and 2; it outlives the caller and ends
// with its body.
enum class LabLifetime { kWithCaller, kDetached };
// kCallers: all but the network, which stays the caller's: a place for programs that need no links.
enum class LabNetwork { kOwn, kCallers };
absl::StatusOr<LabProcess> StartLab(std::function<int()> body, std::vector<int> keep_fds,
                                    LabLifetime lifetime = LabLifetime::kWithCaller,
                                    LabCompanion companion = {},
                                    LabNetwork network = LabNetwork::kOwn);

// Starts a program inside node `node`'s network namespace with a fresh /sys, so that it sees only
// lo and net0, and with the node's name as its host name. `inherit_fds`: child fd -> our fd (0, 1,
// 2 included when wanted; else /dev/null). The child gets exactly `environment` and dies with the
// THREAD that called this. Returns its pid. An error in the child up to and including exec is
// returned here, naming the step.
struct NodeCommand {
  std::vector<std::string> argv;  // argv[0] is a path
  std::vector<std::string> environment;
  std::map<int, int> inherit_fds;
  std::string host_name = {};  // "": this process's
};
absl::StatusOr<pid_t> SpawnInNode(const Emulator& emulator, int node, const NodeCommand& command);

// The same for any network namespace, given by an open descriptor.
absl::StatusOr<pid_t> SpawnInNamespace(int netns_fd, const NodeCommand& command);

// Moves the calling process, which has one thread and is in the lab's mount namespace, into a
// node's network namespace with a fresh /sys, and into a UTS namespace of its own with this host
// name ("": none). Only async-signal-safe calls. Returns null, or the step that failed, with errno.
const char* EnterNode(int netns_fd, const char* host_name);

// Runs `question` inside a private lab of its own and returns its text; the lab is gone then. An
// error of the lab or of the question comes back as it is. Call as StartLab.
absl::StatusOr<std::string> AskInLab(const std::function<absl::StatusOr<std::string>()>& question);

}  // namespace longhaul
