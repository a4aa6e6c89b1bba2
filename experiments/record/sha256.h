#pragma once

#include <string>
#include <string_view>

namespace longhaul {

// Lower-case hex, 64 digits.
std::string Sha256Hex(std::string_view text);

}  // namespace longhaul
