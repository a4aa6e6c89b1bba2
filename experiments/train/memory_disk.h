#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace longhaul {

// Mounts a disk in memory at `folder`, which is made where it is not there, in this process's own
// mount namespace: gone with the process, however it ends. A node's alone: anybody else's mounts
// are left alone. `options`: of tmpfs, as "size=4k,mode=0700". Internal: with the path.
absl::Status MountMemoryDisk(const std::string& folder, const std::string& options);

// The most memory that this process has had to itself, in bytes: its peak resident size without the
// pages of files (libraries, token files), which the kernel may drop and processes share. Where
// pages of files came after the peak, less than the most by those. nullopt: no /proc.
std::optional<int64_t> PeakPrivateBytes();

}  // namespace longhaul
