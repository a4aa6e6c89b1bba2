#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/spec/spec_keys.h"

namespace longhaul {

// One key in which two specs differ. Values as TOML; "-" where one spec lacks the key.
struct SpecChange {
  std::string key;  // "train.lr"
  std::string from, to;
  friend bool operator==(const SpecChange&, const SpecChange&) = default;
};

// Keys that differ, in the order of the specs. `seed` is never one: arms are paired by it.
std::vector<SpecChange> SpecChanges(const RunSpec& from, const RunSpec& to);

// Of those, what a loss cannot be booked on crossings beside: all but schedule.stages and
// schedule.cuts, boundary.forward, boundary.backward and [boundary.cuts]. Empty: the two may have
// a q between them.
std::vector<SpecChange> ChangesBesideCodecs(const RunSpec& from, const RunSpec& to);

// "train.lr 0.003 > 0.002, train.clip_norm 1.0 > inf"; "" for none.
std::string ToString(const std::vector<SpecChange>& changes);

// What stands between a codec and its boundaries in a text of CodecText (spec.h).
inline constexpr std::string_view kAtBoundaries = " at ";

// K: for each direction S - 1, none where the codec is "none", or as many as CodecText names.
int64_t CompressedCrossings(int64_t stages, std::string_view forward, std::string_view backward);

// What the difference means, by the table of keys; [boundary.cuts] and [boundary.policy] are booked.
Change MeaningOf(const SpecChange& change);

}  // namespace longhaul
