#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace longhaul {

// What must hold before toml++ 3.3 (Debian 12's) may see a text: where it looks for white space, a
// character outside ASCII is undefined behaviour (its table of white space ends in an unreachable
// branch for letters such as U+00E9; a fuzzer's finding). Inside strings, quoted keys and comments
// it does not look, so any UTF-8 is fine there. Not there: InvalidArgument, "WHERE:LINE: ...".
absl::Status CheckTomlText(std::string_view text, const std::string& where);

}  // namespace longhaul
