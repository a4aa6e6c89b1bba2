#pragma once

#include <cstdint>
#include <optional>

namespace longhaul {

// The most memory that this process has had to itself, in bytes: its peak resident size without the
// pages of files (libraries, token files), which the kernel may drop and processes share. Where
// pages of files came after the peak, less than the most by those. nullopt: no /proc.
std::optional<int64_t> PeakPrivateBytes();

}  // namespace longhaul
