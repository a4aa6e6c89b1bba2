#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul {

// Decimal digits and nothing else, no leading zero, below 2^32: one spelling per codec.
std::optional<uint32_t> ParseNumber(std::string_view text);

// Those of `known` that are nearest to `name` in their beginning, then as a whole, up to `count`,
// the nearest first.
std::vector<std::string> Nearest(size_t count, std::string_view name,
                                 std::vector<std::string> known);

}  // namespace longhaul
