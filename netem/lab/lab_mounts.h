#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace longhaul {

// The file system of a lab: the host's, with a fresh /proc and an empty /run of its own. The host's
// /run stands at /run/host. What the host mounts later is seen, where its mounts are shared, as
// systemd makes them. Call once, by the first process of the lab's mount namespace; the working
// folder stays the same, also where it is under /run.
absl::Status MountLab();

// Makes what the host has at `path` visible there for the calling process's mount namespace, where
// the lab's own /run hides it; elsewhere it does nothing. Names that are the lab's own (/run
// itself, netns, host, hosts, resolv.conf, gai.conf) stay the lab's.
absl::Status ShowHostRun(std::string_view path);

}  // namespace longhaul
