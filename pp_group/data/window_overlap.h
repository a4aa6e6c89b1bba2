#pragma once

#include <cstdint>
#include <vector>

#include "pp_group/data/mapped_tokens.h"

namespace longhaul {

// How many of `windows`, all of one length >= 1, are somewhere in `text`, id for id: a rolling hash
// finds them in one pass, and what it finds is compared. Takes a few nanoseconds an id.
int64_t WindowsIn(const MappedTokens& text, const std::vector<std::vector<int64_t>>& windows);

}  // namespace longhaul
