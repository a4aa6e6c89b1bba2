#pragma once

#include <string>

#include "absl/status/status.h"

namespace longhaul {

// Mounts a disk in memory at `folder`, which is made where it is not there, in this process's own
// mount namespace: gone with the process, however it ends. A node's alone: anybody else's mounts
// are left alone. `options`: of tmpfs, as "size=4k,mode=0700". Internal: with the path.
absl::Status MountMemoryDisk(const std::string& folder, const std::string& options);

}  // namespace longhaul
