#pragma once

#include <string>

namespace longhaul {

// Now, "2026-03-01T12:34:56.789Z": for records, never for durations.
std::string UtcNow();

}  // namespace longhaul
