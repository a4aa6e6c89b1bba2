#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "netem/topology/units.h"

namespace longhaul {

// Figures as people write them, with their unit: "20ms", "50mbit", "1%". A number without one means
// different things to different tools and is refused with the two readings that it may have; 0 is
// the same in all of them. `key` stands in messages. InvalidArgument.
absl::StatusOr<absl::Duration> ReadTime(std::string_view key, std::string_view text);  // us, ms, s
absl::StatusOr<BitsPerSecond> ReadRate(std::string_view key,
                                       std::string_view text);  // bit, kbit, mbit, gbit
absl::StatusOr<double> ReadShare(std::string_view key, std::string_view text);  // % -> [0, 1]

// "20ms" -> 20 and "ms", in small letters. False: no number first.
bool TakeNumber(std::string_view text, double& number, std::string& unit);

// The units that a heading names, each once: "time_ms" has 1e-3 (seconds), "DL rate (kbps)" has 1e3
// (bits per second). NaN: bytes, or a word that means bits to one writer and bytes to another.
std::vector<double> TimeUnitsIn(std::string_view heading);
std::vector<double> RateUnitsIn(std::string_view heading);

}  // namespace longhaul
