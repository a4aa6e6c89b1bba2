#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul {

// One key in which two resolved specs (ToToml) differ. Values as TOML; "-" where one spec lacks the
// key.
struct SpecChange {
  std::string key;  // "train.lr"
  std::string from, to;
  friend bool operator==(const SpecChange&, const SpecChange&) = default;
};

// Keys that differ, in the order of the specs. `seed` is never one: arms are paired by it.
std::vector<SpecChange> SpecChanges(std::string_view from, std::string_view to);

// Of those, what a loss cannot be booked on crossings beside: all but schedule.stages and
// schedule.cuts, boundary.forward, boundary.backward and [boundary.cuts]. Empty: the two may have
// a q between them.
std::vector<SpecChange> ChangesBesideCodecs(std::string_view from, std::string_view to);

// "train.lr 0.003 > 0.002, train.clip_norm 1.0 > inf"; "" for none.
std::string ToString(const std::vector<SpecChange>& changes);

// What stands between a codec and its boundaries in a text of CodecText (spec.h).
inline constexpr std::string_view kAtBoundaries = " at ";

// K: for each direction S - 1, none where the codec is "none", or as many as CodecText names.
int64_t CompressedCrossings(int64_t stages, std::string_view forward, std::string_view backward);

// What an arm of DiLoCo may change against synchronous data parallel with the same global batch:
// the outer step's keys, and how that batch is shared out.
bool IsOuterCellKey(std::string_view key);

}  // namespace longhaul
