#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"

namespace longhaul {

// What a spec file may be at most. A parser of TOML, and whatever walks its tree, goes one call
// deeper for each part of a key and each bracket: these bound the stack before they start.
inline constexpr size_t kMaxTomlBytes = 256 * 1024;
inline constexpr int kMaxKeyParts = 8;       // of one dotted key or table header
inline constexpr int kMaxBracketDepth = 16;  // arrays and inline tables inside each other

// One pass over the text, before it is parsed. InvalidArgument with `origin` and the line: too
// long, a key of too many parts, brackets too deep.
absl::Status CheckTomlLimits(std::string_view text, std::string_view origin);

}  // namespace longhaul
